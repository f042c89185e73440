package scheduling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

const (
	// DebugPath is where placements are explained: GET DebugPath/<namespace>/<name>, or POST DebugPath with a Placement, as
	// upstream's placement controller serves it (spec 5.5).
	DebugPath = "/debug/placements"

	// maxPlacementBytes bounds a Placement that is posted. As upstream has it, more is a malformed request (400, not 413).
	maxPlacementBytes = 1 << 20
)

// refusal is an answer other than 200.
type refusal struct {
	code int
	error
}

func refuse(code int, format string, arguments ...any) error {
	return refusal{code, fmt.Errorf(format, arguments...)}
}

// ServeHTTP answers DebugPath. The API server has found out who asks; whether they may is asked here.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := c.answer(r)
	code := http.StatusOK
	if err != nil {
		code = http.StatusInternalServerError
		if refused := (refusal{}); errors.As(err, &refused) {
			code = refused.code
		}
		answer = &placement.Explanation{Error: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, POST")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that is gone needs no answer
}

func (c *Controller) answer(r *http.Request) (*placement.Explanation, error) {
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, DebugPath), "/")
	who, ok := request.UserFrom(r.Context())
	if !ok || !slices.Contains(who.GetGroups(), user.AllAuthenticated) {
		return nil, refuse(http.StatusUnauthorized, "nobody is logged on: send the credentials of a user of this hub")
	}
	switch {
	case !c.isSynced():
		return nil, refuse(http.StatusServiceUnavailable, "the hub has just started and does not know all clusters and placements yet; ask again in a second")
	case r.Method == http.MethodGet:
		return c.answerGet(r.Context(), who, path)
	case r.Method == http.MethodPost && path == "":
		return c.answerPost(r, who)
	}
	return nil, refuse(http.StatusMethodNotAllowed, "method %s is not allowed on %s: GET %s/<namespace>/<name>, or POST a Placement to %s/", r.Method, r.URL.Path, DebugPath, DebugPath)
}

func (c *Controller) answerGet(ctx context.Context, who user.Info, path string) (*placement.Explanation, error) {
	namespace, name, _ := strings.Cut(path, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, refuse(http.StatusBadRequest, "path %s/%s names no placement: it is %s/<namespace>/<name>", DebugPath, path, DebugPath)
	}
	if err := c.permit(ctx, who, "get", namespace, name); err != nil {
		return nil, err
	}
	p := c.find(namespace, name)
	if p == nil {
		return nil, refuse(http.StatusNotFound, "placement '%s' not found in namespace %s", name, namespace)
	}
	return c.explainTo(ctx, who, p)
}

// answerPost explains a placement that need not exist. The API server reads it as if it were to be created, with its
// defaults and checks.
func (c *Controller) answerPost(r *http.Request, who user.Info) (*placement.Explanation, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPlacementBytes+1))
	switch {
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "read the placement: %w", err)
	case len(body) > maxPlacementBytes:
		return nil, refuse(http.StatusBadRequest, "the placement is larger than %d bytes", maxPlacementBytes)
	}
	p := &clusterv1beta1.Placement{}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is no Placement in JSON: %w", err)
	}
	if p.Namespace == "" {
		return nil, refuse(http.StatusBadRequest, "the placement has no metadata.namespace")
	}
	if err := c.permit(r.Context(), who, "create", p.Namespace, ""); err != nil {
		return nil, err
	}
	read, err := c.dryRun(r.Context(), p, body)
	if err != nil {
		return nil, err
	}
	return c.explainTo(r.Context(), who, read)
}

// dryRun has the API server read a placement, under a name that nobody has.
func (c *Controller) dryRun(ctx context.Context, p *clusterv1beta1.Placement, body []byte) (*clusterv1beta1.Placement, error) {
	content := map[string]any{}
	if err := json.Unmarshal(body, &content); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is no Placement in JSON: %w", err)
	}
	content["apiVersion"], content["kind"] = clusterv1beta1.GroupVersion.String(), "Placement"
	content["metadata"] = metav1.ObjectMeta{GenerateName: "explain-", Namespace: p.Namespace, Labels: p.Labels, Annotations: p.Annotations}
	asked, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	read := &clusterv1beta1.Placement{}
	err = c.Clusters.ClusterV1beta1().RESTClient().Post().Namespace(p.Namespace).Resource("placements").
		VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ParameterCodec).Body(asked).Do(ctx).Into(read)
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return nil, refuse(http.StatusBadRequest, "the placement is not valid: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	read.Name, read.GenerateName = p.Name, ""
	return read, nil
}

// explainTo leaves out clusters that the placement cannot reach unless the user may see all of them.
func (c *Controller) explainTo(ctx context.Context, who user.Info, p *clusterv1beta1.Placement) (*placement.Explanation, error) {
	all, err := c.allowed(ctx, who, authorizationv1.ResourceAttributes{Verb: "list", Group: clusterv1beta1.GroupName, Version: "v1", Resource: "managedclusters"})
	if err != nil {
		return nil, err
	}
	return c.explain(ctx, p, all)
}

func (c *Controller) permit(ctx context.Context, who user.Info, verb, namespace, name string) error {
	allowed, err := c.allowed(ctx, who, authorizationv1.ResourceAttributes{
		Verb: verb, Group: clusterv1beta1.GroupName, Version: clusterv1beta1.GroupVersion.Version, Resource: "placements", Namespace: namespace, Name: name,
	})
	if err == nil && !allowed {
		return refuse(http.StatusForbidden, "user %s does not have permission to %s placements in namespace %s", who.GetName(), verb, namespace)
	}
	return err
}

func (c *Controller) allowed(ctx context.Context, who user.Info, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range who.GetExtra() {
		extra[key] = values
	}
	review, err := c.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: extra, ResourceAttributes: &what,
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("may user %s %s %s: %w", who.GetName(), what.Verb, what.Resource, err)
	}
	return review.Status.Allowed, nil
}
