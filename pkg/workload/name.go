package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// SetLabel is on every work that nave work apply made, and says of which set it is a part. A work without it, or with
	// another value, was made by something else.
	SetLabel = "nave.dev/work-set"

	// maxName leaves room for the number of a part in a label's 63 characters.
	maxName = 58
)

// CheckName tells whether a set of works may be called so.
func CheckName(name string) error {
	if reasons := validation.IsDNS1123Subdomain(name); len(reasons) > 0 {
		return fmt.Errorf("name %q: %s", name, reasons[0])
	}
	if len(name) > maxName {
		return fmt.Errorf("name %q is longer than %d characters, which leave room for the numbers of its parts", name, maxName)
	}
	return nil
}

// NameOf makes the name of a set of works from the one file or directory that its objects are read from.
func NameOf(sources []string) (string, error) {
	if len(sources) != 1 || sources[0] == "-" {
		return "", errors.New("only one file or directory gives the works a name; say --name NAME")
	}
	path, err := filepath.Abs(sources[0])
	if err != nil {
		return "", fmt.Errorf("name of %s: %w", sources[0], err)
	}
	base := filepath.Base(path)
	for _, extension := range []string{".yaml", ".yml", ".json"} {
		base = strings.TrimSuffix(base, extension)
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, base)
	name = strings.Trim(name[:min(len(name), maxName)], "-")
	if name == "" {
		return "", fmt.Errorf("%s gives no name for works; say --name NAME", sources[0])
	}
	return name, nil
}

// setValue is the name of a set as a label can hold it. Names that are too long for one come only from ManifestWorks that
// somebody wrote.
func setValue(set string) string {
	if len(set) <= validation.LabelValueMaxLength {
		return set
	}
	sum := sha256.Sum256([]byte(set))
	return hex.EncodeToString(sum[:16])
}

// partName is the work that holds a part of a set; they count from 1.
func partName(set string, number int) string {
	if number == 1 {
		return set
	}
	return set + "-" + strconv.Itoa(number)
}

// partNumber is the number of the part that a work of a set holds; 0 if its name is none of the set's.
func partNumber(set, work string) int {
	if work == set {
		return 1
	}
	digits, ok := strings.CutPrefix(work, set+"-")
	number, err := strconv.Atoi(digits)
	if !ok || err != nil || number < 2 || strconv.Itoa(number) != digits {
		return 0
	}
	return number
}

// PartOf tells whether a work may be a part of a set by its name.
func PartOf(set, work string) bool { return partNumber(set, work) > 0 }
