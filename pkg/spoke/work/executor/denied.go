package executor

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RetryAfter is when a work that was denied something is worth another try, where nothing tells that rights have changed.
const RetryAfter = time.Minute

// Denied says that an executor may not do what its work wants. It begins with upstream's words (spec 4.7).
type Denied struct {
	GVR             schema.GroupVersionResource
	Namespace, Name string
	Executor        string   // name of the user that the executor is
	Missing         []string // verbs that it may not use
	Escalation      bool     // it may write the object, but not one that grants so much
	Reason          string   // what else there is to say, in the words of the API server
}

// Error says what is not allowed, and what is missing.
func (d *Denied) Error() string {
	text := fmt.Sprintf("not allowed to apply the resource %s %s, %s %s", d.GVR.Group, d.GVR.Resource, d.Namespace, d.Name)
	if d.Escalation {
		text += ", error: permission escalation"
	}
	text += ", will try again in " + RetryAfter.String()
	if len(d.Missing) > 0 {
		text += fmt.Sprintf("; on the managed cluster %s may not %s it", d.Executor, strings.Join(d.Missing, ", "))
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}
