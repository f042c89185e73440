package workload

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// defaultLimit is how much the manifests of one work may hold on a hub whose limit nobody has changed, ours or
	// upstream's, in bytes (spec 3.1).
	defaultLimit = 500 * 1024
	// mostAsked bounds a work that is sent to learn the limit: an API server takes no request of more than 3 MiB.
	mostAsked = 2 << 20
)

// limitText is how a hub refuses a work that is too large, ours as upstream's (spec 3.1).
func limitText() *regexp.Regexp {
	return regexp.MustCompile(`size of manifests is \d+ bytes which exceeds the (\d+) limit`)
}

// limitIn is the limit that an error of the hub names; 0 if it is about something else.
func limitIn(err error) int {
	if err == nil {
		return 0
	}
	found := limitText().FindStringSubmatch(err.Error())
	if found == nil {
		return 0
	}
	limit, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return limit
}

// limit is how many bytes of manifests a work may have. A hub says that only when it refuses one: so what fits under the
// usual limit is just tried, and for what does not the hub is asked what it would say to a larger work.
func (a *Applier) limit(ctx context.Context, cluster string, objects []Object) (int, error) {
	switch {
	case a.MaxBytes > 0:
		return a.MaxBytes, nil
	case a.learned > 0:
		return a.learned, nil
	}
	var manifests []workv1.Manifest
	total, asked := 0, 0
	for _, o := range objects {
		total += o.size()
		if asked+o.size() <= mostAsked {
			manifests = append(manifests, o.Manifest())
			asked += o.size()
		}
	}
	if total <= defaultLimit {
		return defaultLimit, nil
	}
	question := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{GenerateName: a.Set + "-", Namespace: cluster}}
	question.Spec.Workload.Manifests = manifests
	_, err := a.Hub.WorkV1().ManifestWorks(cluster).Create(ctx, question, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	switch limit := limitIn(err); {
	case err == nil:
		a.learned = max(asked, defaultLimit)
	case limit > 0:
		a.learned = limit
	default:
		return 0, fmt.Errorf("ask the hub how large works of cluster %s may be: %w; or say it with --max-size", cluster, err)
	}
	return a.learned, nil
}
