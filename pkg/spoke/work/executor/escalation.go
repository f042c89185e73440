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

// checkEscalation has the API server try, in the executor's name and without effect, to write the object, whether or not there
// is one already: what is there may forbid more than what is asked for, as an aggregation rule does. Upstream tries to create
// it, which tells nothing of that.
//
// That an API server looks at all rights of somebody takes it a tenth of a second where anything was written shortly before.
// So executors that it would not look at, since they may grant anything, are told by a review.
func (c *Checker) checkEscalation(ctx context.Context, who account, r Request) error {
	body, err := trialBody(r)
	if err != nil {
		return err
	}
	if free, err := c.ask(ctx, freedom(who, r)); err != nil || free.allowed {
		return err
	}
	err = c.try(ctx, who, c.plain.Patch(types.ApplyYAMLPatchType).AbsPath(pathOf(r)...), body)
	switch {
	case err == nil, apierrors.IsInvalid(err):
		return nil // a field that cannot be changed is nothing that rights are about; the apply will say it
	case apierrors.IsForbidden(err) && !ofAgent(err):
		return &Denied{GVR: r.GVR, Namespace: r.Namespace, Name: r.Name, Executor: who.user(), Escalation: true, Reason: err.Error()}
	}
	return fmt.Errorf("try whether %s may write %s %s: %w", who.user(), r.GVR.GroupResource(), r.Name, err)
}

// freedom asks whether the executor may write a role that grants anything, or bind the role of a binding, whatever it has
// itself. It names what the API server looks for.
func freedom(who account, r Request) question {
	gvr := schema.GroupVersionResource{Group: r.GVR.Group, Version: "*", Resource: r.GVR.Resource}
	if gvr.Resource == "roles" || gvr.Resource == "clusterroles" {
		return question{who, "escalate", gvr, r.Namespace, r.Name}
	}
	kind, _, _ := unstructured.NestedString(r.Object.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(r.Object.Object, "roleRef", "name")
	gvr.Resource = "roles"
	if kind == "ClusterRole" {
		gvr.Resource = "clusterroles"
	}
	return question{who, "bind", gvr, r.Namespace, name}
}

// try sends a request in the executor's name that changes nothing. The API server adds the account's groups by itself.
func (c *Checker) try(ctx context.Context, who account, request *rest.Request, body []byte) error {
	return request.SetHeader(authenticationv1.ImpersonateUserHeader, who.user()).Param("dryRun", metav1.DryRunAll).
		Param("fieldManager", trial).Param("force", "true").Body(body).Do(ctx).Error()
}

// trial is who tries, and marks what is tried: nobody's rights are looked at where an object stays as it is, but an executor
// may not take over one that grants more than it has. Nothing is ever stored under this name.
const trial = "work-agent-trial"

// ofAgent tells whether it is the agent that is forbidden to speak in the executor's name. Newer API servers name a verb
// that begins with impersonate.
func ofAgent(err error) bool { return strings.Contains(err.Error(), " cannot impersonate") }

// trialBody is the object, marked, without what the API server alone decides.
func trialBody(r Request) ([]byte, error) {
	if r.Object == nil {
		return nil, fmt.Errorf("whether %s %s grants too much cannot be told without the object", r.GVR.GroupResource(), r.Name)
	}
	object := r.Object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[trial] = ""
	object.SetLabels(labels)
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", r.GVR.GroupResource(), r.Name, err)
	}
	return body, nil
}

// pathOf is where the object is, or will be.
func pathOf(r Request) []string {
	path := []string{"apis", r.GVR.Group, r.GVR.Version}
	if r.Namespace != "" {
		path = append(path, "namespaces", r.Namespace)
	}
	return append(path, r.GVR.Resource, r.Name)
}
