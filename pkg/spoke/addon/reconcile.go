package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"nave/pkg/log"
)

// Conditions on the ManagedClusterAddOn, one for each driver.
const (
	conditionCertificate = "ClusterCertificateRotated"
	reasonUpdated        = "ClientCertificateUpdated"
	reasonUpdateFailed   = "ClientCertificateUpdateFailed"

	conditionToken     = "TokenRefreshed"
	reasonRefreshed    = "AddonTokenRefreshed"
	reasonCreateFailed = "TokenCreationFailed"
)

func (r *Registrar) reconcile(ctx context.Context, name string) (time.Duration, error) {
	if !r.enabled() {
		return 0, r.requests.retain(name, nil)
	}
	mca, err := r.lister().Get(name)
	if apierrors.IsNotFound(err) {
		return 0, errors.Join(r.requests.retain(name, nil), r.remove(ctx, name, nil))
	}
	if err != nil {
		return 0, err
	}
	driver := driverCertificate
	if r.Settings.Get().AddOnTokens {
		driver = driverToken
	}
	if why := r.refused(mca); why != "" {
		err := errors.Join(r.requests.retain(name, nil), r.remove(ctx, name, nil))
		return 0, errors.Join(err, r.report(ctx, mca, outcomes{failed(driver, errors.New(why))}))
	}
	if registrations, changed := declared(mca, driver); changed {
		return 0, r.patchStatus(ctx, mca, map[string]any{"registrations": registrations})
	}
	all := wantedOf(mca)
	if mca.DeletionTimestamp == nil { // else its agent may need the hub to clean up after itself
		if err := errors.Join(r.requests.retain(name, all), r.remove(ctx, name, all)); err != nil {
			return 0, err
		}
	}
	return r.provideAll(ctx, mca, all)
}

// refused says why the add-on cannot be registered at all.
func (r *Registrar) refused(mca *addonv1beta1.ManagedClusterAddOn) string {
	if host := hostedOn(mca); host != "" && len(mca.Status.Registrations) > 0 {
		return hostedMessage(host)
	}
	if len(mca.Name) > validation.LabelValueMaxLength {
		return fmt.Sprintf("The name of the add-on has %d characters, the limit is %d.", len(mca.Name), validation.LabelValueMaxLength)
	}
	return ""
}

func (r *Registrar) provideAll(ctx context.Context, mca *addonv1beta1.ManagedClusterAddOn, all []wanted) (time.Duration, error) {
	var (
		again   time.Duration
		results outcomes
		errs    []error
	)
	for _, w := range all {
		renew, result, err := r.provide(ctx, mca, w)
		again = sooner(again, renew)
		if err != nil {
			result = failed(w.driver, err)
			errs = append(errs, err)
		}
		results = append(results, result)
	}
	return again, errors.Join(r.report(ctx, mca, results), errors.Join(errs...))
}

// provide makes one identity be there, and tells when the next one is due.
func (r *Registrar) provide(ctx context.Context, mca *addonv1beta1.ManagedClusterAddOn, w wanted) (time.Duration, outcome, error) {
	if _, err := r.namespaces.Get(w.namespace); err != nil {
		return 0, waiting(w.driver), nil // its creation is an event
	}
	secret, err := r.secrets.Secrets(w.namespace).Get(w.secret)
	if apierrors.IsNotFound(err) {
		secret, err = &corev1.Secret{}, nil
	}
	if err != nil {
		return 0, outcome{}, about(w, err)
	}
	data, err := r.common(w)
	if err != nil {
		return 0, outcome{}, about(w, err)
	}
	fresh := r.certificate
	if w.driver == driverToken {
		fresh = r.token
	}
	own, l, err := fresh(ctx, mca, w, secret)
	if err != nil {
		return 0, outcome{}, err
	}
	if own == nil {
		return 0, waiting(w.driver), nil
	}
	maps.Copy(data, own)
	if err := r.write(ctx, w, data); err != nil {
		return 0, outcome{}, err
	}
	if err := r.requests.settle(w); err != nil {
		return 0, outcome{}, err
	}
	return max(l.renew.Sub(r.Clock.Now()), time.Second), done(w.driver, l), nil
}

// certificate is the one that the secret has, or a new one if that is due. It is nil while the hub has not answered.
func (r *Registrar) certificate(ctx context.Context, _ *addonv1beta1.ManagedClusterAddOn, w wanted, secret *corev1.Secret) (map[string][]byte, life, error) {
	now := r.Clock.Now()
	kept := map[string][]byte{keyCertificate: secret.Data[keyCertificate], keyKey: secret.Data[keyKey]}
	l, err := certificateLife(kept[keyCertificate], kept[keyKey], w.subject, receivedAt(secret), now)
	good := err == nil && r.ofHub(w, secret)
	if good && now.Before(l.renew) && !r.predates(w, secret) {
		return kept, l, nil
	}
	certificate, key, err := r.requests.ask(ctx, w)
	if err != nil || certificate == nil {
		return nil, life{}, err
	}
	if l, err = certificateLife(certificate, key, w.subject, now, now); err != nil {
		return nil, life{}, errors.Join(fmt.Errorf("the hub issued a certificate that add-on %s cannot use: %w", w.addon, err), r.requests.settle(w))
	}
	return map[string][]byte{keyCertificate: certificate, keyKey: key}, l, nil
}

// token is the one that the secret has, or a new one if that is due. It is nil while the hub has no account for it.
func (r *Registrar) token(ctx context.Context, mca *addonv1beta1.ManagedClusterAddOn, w wanted, secret *corev1.Secret) (map[string][]byte, life, error) {
	uid, err := accountUID(mca)
	if err != nil || uid == "" {
		return nil, life{}, err
	}
	now := r.Clock.Now()
	kept := secret.Data[keyToken]
	if l, err := tokenLife(kept, uid, now); err == nil && now.Before(l.renew) && r.ofHub(w, secret) {
		return map[string][]byte{keyToken: kept}, l, nil
	}
	review, err := r.Hub.CoreV1().ServiceAccounts(mca.Namespace).CreateToken(ctx, mca.Name+"-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(r.Settings.Get().AddOnTokenLifetime / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, life{}, fmt.Errorf("token of service account %s/%s-agent on the hub: %w", mca.Namespace, mca.Name, err)
	}
	token := []byte(review.Status.Token)
	l, err := tokenLife(token, uid, now)
	if err != nil {
		return nil, life{}, fmt.Errorf("the hub issued a token that add-on %s cannot use: %w", w.addon, err)
	}
	return map[string][]byte{keyToken: token}, l, nil
}

// report writes the conditions where they differ.
func (r *Registrar) report(ctx context.Context, mca *addonv1beta1.ManagedClusterAddOn, results outcomes) error {
	conditions := results.conditions(mca.Status.Conditions)
	if conditions == nil {
		return nil
	}
	if err := r.patchStatus(ctx, mca, map[string]any{"conditions": conditions}); err != nil {
		return err
	}
	for _, kind := range []string{conditionCertificate, conditionToken} {
		before, after := meta.FindStatusCondition(mca.Status.Conditions, kind), meta.FindStatusCondition(conditions, kind)
		if after != nil && !equality.Semantic.DeepEqual(before, after) {
			r.logChange(mca.Name, after)
		}
	}
	return nil
}

func (r *Registrar) logChange(addon string, c *metav1.Condition) {
	entry := r.Log.WithFields(logrus.Fields{log.FieldObject: "add-on " + addon, log.FieldReason: c.Reason})
	if c.Status == metav1.ConditionTrue {
		entry.Info(c.Message)
	} else {
		entry.Warn(c.Message)
	}
}
