// Package replicas is what a ManifestWorkReplicaSet and the works that are made of it have in common: labels, names, content,
// what its placements select, which work of a cluster counts, and what a work's conditions say of its success (spec 3.2). The
// hub's controller and the commands share it.
package replicas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// Labels of works, upstream's.
const (
	SetLabel       = workv1alpha1.ManifestWorkReplicaSetControllerNameLabelKey
	PlacementLabel = workv1alpha1.ManifestWorkReplicaSetPlacementNameLabelKey
)

const (
	// WrittenAnnotation on a work is when it got the content that it has, in RFC 3339. Conditions of a work keep their time if
	// new content succeeds as the old one did, so without it a rollout would take an old success for one that has lasted.
	WrittenAnnotation = "nave.dev/content-written"

	// IntendedAnnotation on a work says which content it was given, see Intend.
	IntendedAnnotation = "nave.dev/content-intended"

	// LabelsAnnotation on a work lists the labels that are its set's, with commas between. Others may put labels on it that
	// stay; upstream takes them away (spec 10.2, C3).
	LabelsAnnotation = "nave.dev/replicaset-labels"
)

const (
	maxLabelLength = 63
	hashLength     = 10 // of what takes the place of the end of a long label
)

// SetValue is the value of SetLabel for works of a set: namespace.name. A namespace has no dot in its name, so the value is
// that of one set only; and so it is if it had to be shortened, which upstream refuses (spec 10.2, C3).
func SetValue(namespace, name string) string { return labelValue(namespace + "." + name) }

// PlacementValue is the value of PlacementLabel.
func PlacementValue(placement string) string { return labelValue(placement) }

func labelValue(text string) string {
	if len(text) <= maxLabelLength {
		return text
	}
	return strings.TrimRight(text[:maxLabelLength-1-hashLength], "-.") + "-" + hashOf(text)[:hashLength]
}

const (
	suffixLength  = 5 // as generated names have
	maxNameLength = 63
)

// WorkName is the name of the work for a placement of a set. It looks like one that is generated from the set's name, which
// clients know from upstream, but asking twice gives the same: so whoever creates it twice is told, and no second work comes to
// be. attempt is for names that somebody else has taken.
func WorkName(set *workv1alpha1.ManifestWorkReplicaSet, placement string, attempt int) string {
	base := set.Name[:min(len(set.Name), maxNameLength-suffixLength)]
	hash := hashOf(fmt.Sprintf("%s/%s/%d", set.UID, placement, attempt))
	return base + rand.SafeEncodeString(hash)[:suffixLength]
}

// Content is a hash of what a work applies and how: two works with the same are the same but for their metadata. The API server
// stores manifests in one form, whoever wrote them.
func Content(spec *workv1.ManifestWorkSpec) string {
	text, err := json.Marshal(spec)
	if err != nil {
		return "" // a manifest that is no JSON, which the API server refuses
	}
	return hashOf(string(text))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Intend notes on a work the hash of the content that it is being given, and the generation that it will have with it. Policies
// of the hub's users may store another content in its place; what they make of it is not known before.
func Intend(work metav1.Object, content string, generation int64) {
	annotations := work.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[IntendedAnnotation] = fmt.Sprintf("%s %d", content, generation)
	work.SetAnnotations(annotations)
}

// IntendedOf is what Intend noted; nothing if it did not.
func IntendedOf(work metav1.Object) (content string, generation int64) {
	content, text, _ := strings.Cut(work.GetAnnotations()[IntendedAnnotation], " ")
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", 0
	}
	return content, generation
}

// HasContent tells whether a work of which stored is the hash has some content: as it is, or as a policy has changed it when it
// was given it. If its generation is larger than that, somebody has changed it since.
func HasContent(work metav1.Object, stored, wanted string) bool {
	if stored == wanted {
		return true
	}
	content, generation := IntendedOf(work)
	return content == wanted && work.GetGeneration() <= generation
}

// written is when a work got its content: as its annotation says, else when it was created.
func written(work *workv1.ManifestWork) time.Time {
	if at, err := time.Parse(time.RFC3339, work.Annotations[WrittenAnnotation]); err == nil {
		return at
	}
	return work.CreationTimestamp.Time
}
