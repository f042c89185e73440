package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// question is what a review asks. Each names one object: that all objects of a kind may be written would be answered once
// for all, but an authorizer may well refuse one of them.
type question struct {
	account
	verb            string
	gvr             schema.GroupVersionResource
	namespace, name string
}

// answer is what came of a review.
type answer struct {
	allowed bool
	why     string // what kept an authorizer from an answer
}

// checkVerbs asks about all verbs at a time, so that one round trip is enough, and all that is missing is told at once.
func (c *Checker) checkVerbs(ctx context.Context, who account, r Request) error {
	given, errs := make([]answer, len(r.Verbs)), make([]error, len(r.Verbs))
	var asking sync.WaitGroup
	for i, verb := range r.Verbs {
		asking.Go(func() { given[i], errs[i] = c.ask(ctx, question{who, verb, r.GVR, r.Namespace, r.Name}) })
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	denied := &Denied{GVR: r.GVR, Namespace: r.Namespace, Name: r.Name, Executor: who.user()}
	for i, a := range given {
		if !a.allowed {
			denied.Missing, denied.Reason = append(denied.Missing, r.Verbs[i]), a.why
		}
	}
	if len(denied.Missing) == 0 {
		return nil
	}
	return denied
}

// ask answers a question, from memory if it can.
func (c *Checker) ask(ctx context.Context, q question) (answer, error) {
	known, asOf := c.answers.get(q)
	if known != nil {
		return *known, nil
	}
	given, err := c.review(ctx, q)
	if err == nil {
		c.answers.put(q, given, asOf)
	}
	return given, err
}

// review asks the managed cluster.
func (c *Checker) review(ctx context.Context, q question) (answer, error) {
	review, err := c.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: q.user(), Groups: q.groups(),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.verb, Group: q.gvr.Group, Version: q.gvr.Version, Resource: q.gvr.Resource, Namespace: q.namespace, Name: q.name,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("ask the managed cluster whether %s may %s %s %s: %w", q.user(), q.verb, q.gvr.GroupResource(), q.name, err)
	}
	return answer{review.Status.Allowed, review.Status.EvaluationError}, nil
}
