package work

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// DefaultLimitBytes is how much the manifests of one work may hold together, as upstream's webhook has it.
	DefaultLimitBytes = 500 * 1024

	// MostLimitBytes is the most that a hub may be told to take. The API server reads no request of more than 3 MiB, and
	// etcd keeps no value of more than 4; a work that is sent whole comes with its status and metadata.
	MostLimitBytes = 2 << 20
)

// CheckLimit tells whether works up to a size can be kept.
func CheckLimit(bytes int) error {
	if bytes < 1 || bytes > MostLimitBytes {
		return fmt.Errorf("%d bytes of manifests in one work are not between 1 and %d: the API server takes no request of more than 3 MiB, and a work has a status besides", bytes, MostLimitBytes)
	}
	return nil
}

func (r *Rules) limit() int {
	if r.LimitBytes == 0 {
		return DefaultLimitBytes
	}
	return r.LimitBytes
}

// checkManifests has the order and the words of upstream's webhook. A size is that of the manifest with the few bytes that
// upstream counts for its encoding. Each manifest is decoded once, so that the limit on the size bounds the time, too.
func checkManifests(manifests []workv1.Manifest, limit int) error {
	if len(manifests) == 0 {
		return apierrors.NewBadRequest("manifests should not be empty")
	}
	total := 0
	for i := range manifests {
		total += manifests[i].Size()
	}
	if total > limit {
		return apierrors.NewBadRequest(fmt.Sprintf("the size of manifests is %d bytes which exceeds the %d limit", total, limit))
	}
	seen := map[string]bool{}
	for i := range manifests {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(manifests[i].Raw); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("manifest %d cannot be decoded: %v", i, err))
		}
		if err := checkNames(object, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(object *unstructured.Unstructured, seen map[string]bool) error {
	if object.GetName() == "" {
		return apierrors.NewBadRequest("name must be set in manifest")
	}
	if object.GetGenerateName() != "" {
		return apierrors.NewBadRequest("generateName must not be set in manifest")
	}
	key := fmt.Sprintf("%s/%s with resource type %s.%s", object.GetNamespace(), object.GetName(), object.GetAPIVersion(), object.GetKind())
	if seen[key] {
		return apierrors.NewBadRequest("duplicate manifest for resource " + key)
	}
	seen[key] = true
	return nil
}
