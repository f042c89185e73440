package executor

import (
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxAccounts bounds whose answers are remembered. Few clusters have more than a handful of executors.
const maxAccounts = 4096

// bindings knows which roles are bound to whom, so that of all the changes on a cluster only those count that may change
// answers: every chart brings roles and bindings, and hardly any is about an executor.
type bindings struct {
	mu    sync.Mutex
	asked map[account]bool // whose answers may be remembered
	bound map[place]bound
}

// place is a name in a namespace, or in the cluster if that is empty: of a binding or a role.
type place struct{ namespace, name string }

// bound is what a binding says, of service accounts.
type bound struct {
	role     place
	subjects []rbacv1.Subject
}

func newBindings() *bindings {
	return &bindings{asked: map[account]bool{}, bound: map[place]bound{}}
}

// ask notes that answers about an account are to be remembered from now on. It tells whether there were too many, and all
// others have to be forgotten.
func (b *bindings) ask(who account) (overflow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked[who] {
		return false
	}
	if overflow = len(b.asked) >= maxAccounts; overflow {
		clear(b.asked)
	}
	b.asked[who] = true
	return overflow
}

// set notes a binding, or that it has gone (no subjects), and returns the accounts for which that changes something.
func (b *bindings) set(at place, now bound) []account {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.bound[at]
	b.put(at, now)
	return b.affected(func(who account) bool { return before.applies(at, who) || now.applies(at, who) })
}

// replace notes all bindings of namespaces, or all of the cluster, as they were listed.
func (b *bindings) replace(namespaced bool, all map[place]bound) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.bound {
		if (at.namespace != "") == namespaced {
			delete(b.bound, at)
		}
	}
	for at, now := range all {
		b.put(at, now)
	}
}

// put keeps what a binding says. The caller holds the lock.
func (b *bindings) put(at place, now bound) {
	if len(now.subjects) == 0 {
		delete(b.bound, at)
		return
	}
	b.bound[at] = now
}

// having are the accounts that have a role.
func (b *bindings) having(role place) []account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.affected(func(who account) bool {
		for at, bound := range b.bound {
			if bound.role == role && bound.applies(at, who) {
				return true
			}
		}
		return false
	})
}

// affected are those accounts, of those that were asked about. The caller holds the lock.
func (b *bindings) affected(is func(account) bool) []account {
	var all []account
	for who := range b.asked {
		if is(who) {
			all = append(all, who)
		}
	}
	return all
}

// applies tells whether a binding gives an account anything, as RBAC's authorizer does.
func (b bound) applies(at place, who account) bool {
	return slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.UserKind:
			return s.Name == who.user()
		case rbacv1.GroupKind:
			return slices.Contains(who.groups(), s.Name)
		}
		namespace := s.Namespace
		if namespace == "" {
			namespace = at.namespace
		}
		return namespace == who.namespace && s.Name == who.name
	})
}

// bindingOf is what an object says, nothing if it is none.
func bindingOf(obj any) (at place, b bound) {
	var role rbacv1.RoleRef
	switch o := obj.(type) {
	case *rbacv1.RoleBinding:
		at, role, b.subjects = place{o.Namespace, o.Name}, o.RoleRef, o.Subjects
	case *rbacv1.ClusterRoleBinding:
		at, role, b.subjects = place{"", o.Name}, o.RoleRef, o.Subjects
	}
	if role.Kind == "Role" {
		b.role.namespace = at.namespace
	}
	b.role.name = role.Name
	b.subjects = slices.DeleteFunc(slices.Clone(b.subjects), func(s rbacv1.Subject) bool { return !ofAccounts(s) })
	return at, b
}

// ofAccounts tells whether a subject may be a service account.
func ofAccounts(s rbacv1.Subject) bool {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		return true
	case rbacv1.UserKind:
		return strings.HasPrefix(s.Name, "system:serviceaccount:")
	case rbacv1.GroupKind:
		return s.Name == "system:authenticated" || strings.HasPrefix(s.Name, "system:serviceaccounts")
	}
	return false
}
