package apiserver

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenSubjects looks up what a service-account token is bound to. A hub has no pods, no nodes and binds no tokens to
// webhook configurations, so a token bound to one is never valid.
type tokenSubjects struct {
	secrets  corelisters.SecretLister
	accounts corelisters.ServiceAccountLister
}

func serviceAccountGetter(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	return tokenSubjects{
		secrets:  factory.Core().V1().Secrets().Lister(),
		accounts: factory.Core().V1().ServiceAccounts().Lister(),
	}
}

func (t tokenSubjects) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return t.accounts.ServiceAccounts(namespace).Get(name)
}

func (t tokenSubjects) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return t.secrets.Secrets(namespace).Get(name)
}

func (t tokenSubjects) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func (t tokenSubjects) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}

func (t tokenSubjects) GetValidatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("validatingwebhookconfigurations"), name)
}

func (t tokenSubjects) GetMutatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), name)
}
