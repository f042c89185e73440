package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// deciding are the kinds that say who has which rights.
var deciding = []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}

// grantsRights tells whether an object of this kind may give somebody more rights than its writer has. A review cannot tell:
// it knows the verb and the name, not what the object says.
func grantsRights(gvr schema.GroupVersionResource) bool {
	return gvr.Group == rbacv1.GroupName && slices.Contains(deciding, gvr.Resource)
}

// checkEscalation has the API server try, in the executor's name and without effect, to write the object. To create one is
// refused for what it grants before it is refused because there is one. Where there is one, to change it is tried as well:
// what is there already may forbid more than what is asked for, as an aggregation rule does.
func (c *Checker) checkEscalation(ctx context.Context, who account, r Request) error {
	body, err := plainBody(r)
	if err != nil {
		return err
	}
	err = c.try(ctx, who, c.plain.Post().AbsPath(pathOf(r)...), body, runtime.ContentTypeJSON)
	if apierrors.IsAlreadyExists(err) {
		change := c.plain.Patch(types.ApplyYAMLPatchType).AbsPath(append(pathOf(r), r.Name)...).Param("force", "true")
		err = c.try(ctx, who, change, body, string(types.ApplyYAMLPatchType))
	}
	switch {
	case err == nil, apierrors.IsInvalid(err):
		return nil // a field that cannot be changed is nothing that rights are about; the apply will say it
	case apierrors.IsForbidden(err) && !ofAgent(err):
		return &Denied{GVR: r.GVR, Namespace: r.Namespace, Name: r.Name, Executor: who.user(), Escalation: true, Reason: err.Error()}
	}
	return fmt.Errorf("try whether %s may write %s %s: %w", who.user(), r.GVR.GroupResource(), r.Name, err)
}

// try sends a request in the executor's name that changes nothing. The API server adds the account's groups by itself.
func (c *Checker) try(ctx context.Context, who account, request *rest.Request, body []byte, contentType string) error {
	return request.SetHeader(authenticationv1.ImpersonateUserHeader, who.user()).SetHeader("Content-Type", contentType).
		Param("dryRun", metav1.DryRunAll).Param("fieldManager", fieldManager).Body(body).Do(ctx).Error()
}

// fieldManager is who tries; nothing is ever stored under this name.
const fieldManager = "work-agent-trial"

// ofAgent tells whether it is the agent that is forbidden to speak in the executor's name. Newer API servers name a verb
// that begins with impersonate.
func ofAgent(err error) bool { return strings.Contains(err.Error(), " cannot impersonate") }

// plainBody is the object without what a new one may not have.
func plainBody(r Request) ([]byte, error) {
	if r.Object == nil {
		return nil, fmt.Errorf("whether %s %s grants too much cannot be told without the object", r.GVR.GroupResource(), r.Name)
	}
	object := r.Object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", r.GVR.GroupResource(), r.Name, err)
	}
	return body, nil
}

// pathOf is where objects of the kind are made.
func pathOf(r Request) []string {
	path := []string{"apis", r.GVR.Group, r.GVR.Version}
	if r.Namespace != "" {
		path = append(path, "namespaces", r.Namespace)
	}
	return append(path, r.GVR.Resource)
}
