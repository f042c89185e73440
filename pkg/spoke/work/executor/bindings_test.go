package executor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errand = account{"d", "errand"}

func boundTo(subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: subjects}
}

func TestWhomABindingConcerns(t *testing.T) {
	for _, test := range []struct {
		name    string
		subject rbacv1.Subject
		want    bool
	}{
		{"the account", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "d", Name: "errand"}, true},
		{"the account, of the binding's namespace", rbacv1.Subject{Kind: "ServiceAccount", Name: "errand"}, true},
		{"one of its name elsewhere", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "e", Name: "errand"}, false},
		{"another account", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "d", Name: "other"}, false},
		{"the user that it is", rbacv1.Subject{Kind: "User", Name: "system:serviceaccount:d:errand"}, true},
		{"a user of that name", rbacv1.Subject{Kind: "User", Name: "errand"}, false},
		{"accounts of its namespace", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:d"}, true},
		{"accounts of another", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:e"}, false},
		{"all accounts", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts"}, true},
		{"everybody", rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, true},
		{"nobody", rbacv1.Subject{Kind: "Group", Name: "system:unauthenticated"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBindings()
			b.ask(errand)
			want := []account(nil)
			if test.want {
				want = []account{errand}
			}
			at, now := bindingOf(boundTo(test.subject))
			require.Equal(t, place{"d", "b"}, at)
			require.Equal(t, want, b.set(at, now), "it comes")
			require.Equal(t, want, b.having(place{"d", "r"}), "its role changes")
			require.Empty(t, b.having(place{"", "r"}), "a role of the cluster by that name changes")
			require.Empty(t, b.having(place{"e", "r"}), "one of another namespace")
			require.Equal(t, want, b.set(at, bound{}), "it goes")
			require.Empty(t, b.having(place{"d", "r"}), "its role changes, of which nobody has anything any more")
			require.Empty(t, b.bound)
		})
	}
}

func TestBindings(t *testing.T) {
	cluster := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}, {Kind: "ServiceAccount", Namespace: "d", Name: "errand"}}}
	inNamespace := boundTo(rbacv1.Subject{Kind: "ServiceAccount", Name: "errand"})
	inNamespace.RoleRef.Kind = "ClusterRole"
	b := newBindings()
	b.ask(errand)
	b.set(bindingOf(cluster))
	b.set(bindingOf(inNamespace))
	require.Len(t, b.bound[place{"", "b"}].subjects, 1, "only accounts are kept")

	t.Run("who was asked about alone counts", func(t *testing.T) {
		require.Equal(t, []account{errand}, b.having(place{"", "r"}))
		require.Empty(t, newBindings().having(place{"", "r"}))
	})
	t.Run("a binding that turns to somebody else concerns both", func(t *testing.T) {
		b.ask(account{"d", "other"})
		at, now := bindingOf(boundTo(rbacv1.Subject{Kind: "ServiceAccount", Name: "other"}))
		require.ElementsMatch(t, []account{errand, {"d", "other"}}, b.set(at, now))
	})
	t.Run("a list replaces those of its kind", func(t *testing.T) {
		b.replace(true, nil)
		require.Equal(t, []account{errand}, b.having(place{"", "r"}), "that of the cluster is left")
		b.replace(false, nil)
		require.Empty(t, b.bound)
	})
	t.Run("there are not more accounts than the bound", func(t *testing.T) {
		b := newBindings()
		for i := range maxAccounts {
			require.False(t, b.ask(account{"d", fmt.Sprint(i)}))
		}
		require.False(t, b.ask(account{"d", "0"}), "it is there")
		require.True(t, b.ask(errand))
		require.Len(t, b.asked, 1)
	})
}
