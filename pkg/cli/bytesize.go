package cli

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// byteSize is the value of a flag of a number of bytes: plain, or as Kubernetes writes quantities, with or without a B at
// the end.
type byteSize int

// String implements pflag.Value.
func (s *byteSize) String() string {
	text := resource.NewQuantity(int64(*s), resource.BinarySI).String()
	if strings.HasSuffix(text, "i") {
		return text + "B"
	}
	return text
}

// Set implements pflag.Value.
func (s *byteSize) Set(text string) error {
	q, err := resource.ParseQuantity(strings.TrimSuffix(text, "B"))
	if err != nil || q.Value() < 0 || q.Value() > math.MaxInt32 {
		return fmt.Errorf("%q is no size such as 500KiB or 1MiB", text)
	}
	*s = byteSize(q.Value())
	return nil
}

// Type implements pflag.Value.
func (s *byteSize) Type() string { return "size" }
