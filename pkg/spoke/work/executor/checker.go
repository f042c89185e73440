// Package executor tells whether the executor of a work may do what the work wants (spec 4.7). The agent asks before it
// applies anything: the managed cluster's API server reviews each verb, and tries without effect whether an object that
// grants rights would grant more than the executor has.
//
// What was answered is kept for a while, and forgotten as soon as anything that decides about permissions changes.
package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Config is what a checker needs.
type Config struct {
	Log   logrus.FieldLogger
	Spoke *rest.Config // the agent's own access to the managed cluster
	Clock clock.WithTicker
}

// Checker asks a managed cluster what executors may do. It may be used by many at a time.
type Checker struct {
	log     logrus.FieldLogger
	reviews authorizationclient.SubjectAccessReviewInterface
	plain   rest.Interface // for requests in an executor's name; one client for all, so that none leaves connections behind
	rbac    rbacclient.RbacV1Interface
	roles   metadata.Interface
	clock   clock.WithTicker

	answers  *answers
	bindings *bindings

	asked   chan struct{} // closed at the first question
	askOnce sync.Once
	changes chan struct{}
}

// New makes a checker. It watches nothing until Run.
func New(c Config) (*Checker, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	reviews, err1 := authorizationclient.NewForConfig(c.Spoke)
	roles, err2 := metadata.NewForConfig(c.Spoke)
	rbac, err3 := rbacclient.NewForConfig(c.Spoke)
	config := rest.CopyConfig(c.Spoke)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.GroupVersion = &schema.GroupVersion{}
	plain, err4 := rest.UnversionedRESTClientFor(config)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("clients of the managed cluster for executors: %w", err)
	}
	return &Checker{
		log: c.Log, reviews: reviews.SubjectAccessReviews(), plain: plain, rbac: rbac, roles: roles, clock: c.Clock,
		answers: newAnswers(c.Clock, len(deciding)), bindings: newBindings(), asked: make(chan struct{}), changes: make(chan struct{}, 1),
	}, nil
}

// Request is what a work wants to do with an object.
type Request struct {
	GVR             schema.GroupVersionResource
	Namespace, Name string
	Object          *unstructured.Unstructured // as it would be applied
	Verbs           []string                   // that applying takes, and delete where the object will go with the work
}

// Check tells whether the executor of a work may do it. The error is a *Denied if not; any other is of the API server, and
// says nothing about the executor.
func (c *Checker) Check(ctx context.Context, executor *workv1.ManifestWorkExecutor, r Request) error {
	c.askOnce.Do(func() { close(c.asked) })
	who, err := accountOf(executor)
	if err != nil {
		return &Denied{GVR: r.GVR, Namespace: r.Namespace, Name: r.Name, Reason: err.Error()}
	}
	if c.bindings.ask(who) {
		c.answers.forgetAll()
	}
	if err := c.checkVerbs(ctx, who, r); err != nil {
		return err
	}
	if !grantsRights(r.GVR) || !slices.ContainsFunc(r.Verbs, writes) {
		return nil
	}
	return c.checkEscalation(ctx, who, r)
}

func writes(verb string) bool { return verb == "create" || verb == "update" || verb == "patch" }

// account is a service account on the managed cluster. It need not exist: rights are given to names.
type account struct{ namespace, name string }

// accountOf is the account of an executor; other types of subjects may come with newer hubs.
func accountOf(executor *workv1.ManifestWorkExecutor) (account, error) {
	subject := executor.Subject
	if subject.Type != workv1.ExecutorSubjectTypeServiceAccount {
		return account{}, fmt.Errorf("the executor is of type %q; only %s is supported", subject.Type, workv1.ExecutorSubjectTypeServiceAccount)
	}
	if subject.ServiceAccount == nil || subject.ServiceAccount.Namespace == "" || subject.ServiceAccount.Name == "" {
		return account{}, errors.New("the executor names no service account; it needs a namespace and a name")
	}
	return account{subject.ServiceAccount.Namespace, subject.ServiceAccount.Name}, nil
}

func (a account) user() string { return "system:serviceaccount:" + a.namespace + ":" + a.name }

// groups are those that a token of the account would bring.
func (a account) groups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"}
}
