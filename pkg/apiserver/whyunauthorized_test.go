package apiserver_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// jwt is a token that no hub signed, with an end.
func jwt(ends time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"ES256","kid":"x"}`)) + "." + part(fmt.Appendf(nil, `{"iss":"https://kubernetes.default.svc","exp":%d}`, ends.Unix())) + "." + part([]byte("signature"))
}

func TestWhyStandardTokensAreRefused(t *testing.T) {
	s, _, ctx := start(t)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	for id, data := range map[string]map[string]string{
		"expird": {"usage-bootstrap-authentication": "true", "expiration": "2020-01-02T03:04:05Z"},
		"signer": {"usage-bootstrap-signing": "true"},
	} {
		data["token-id"], data["token-secret"] = id, "0123456789abcdef"
		_, err := kube.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken, StringData: data,
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, test := range []struct{ name, token, want string }{
		{"unknown bootstrap token", "nosuch.0123456789abcdef", "bootstrap token nosuch is not known to this hub; get another one"},
		{"wrong secret", "expird.0123456789abcdee", "bootstrap token expird is not known to this hub; get another one"},
		{"expired bootstrap token", "expird.0123456789abcdef", "bootstrap token expird expired at 2020-01-02T03:04:05Z; get another one"},
		{"bootstrap token for something else", "signer.0123456789abcdef", "bootstrap token signer may not be used for authentication"},
		{"expired service account's token", jwt(time.Unix(1600000000, 0)), "the token expired at 2020-09-13T12:26:40Z; get another one with clusteradm get token"},
		{"service account's token of another hub", jwt(time.Now().Add(time.Hour)), "the token is not one of this hub"},
		{"no standard token", "something", "Unauthorized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := rest.AnonymousClientConfig(s.config)
			config.BearerToken = test.token
			client, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			_, err = client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			require.True(t, apierrors.IsUnauthorized(err), "%v", err)
			require.ErrorContains(t, err, test.want)
		})
	}
}
