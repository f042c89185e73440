package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/identity"
)

const (
	// agentAnnotations is what the names of the annotations begin with that an agent keeps on its ManagedCluster.
	agentAnnotations = "agent.open-cluster-management.io/"

	// tokenDriver is what an add-on's agent declares that comes with a service account's token instead of a certificate.
	tokenDriver = "token"
)

// validateAgent keeps an agent, while it writes what is its to write, from changing what the hub's people decide: where
// its cluster belongs, what runs on it, and who its add-ons are.
func validateAgent(a admission.Attributes) error {
	u := a.GetUserInfo()
	agent, ok := identity.AgentOf(u.GetName(), u.GetGroups())
	if !ok || a.GetOperation() != admission.Update {
		return nil
	}
	var changed []string
	switch obj := a.GetObject().(type) {
	case *clusterv1.ManagedCluster:
		old, err := oldOf[clusterv1.ManagedCluster](a)
		if err != nil {
			return err
		}
		changed = clusterChanges(obj, old)
	case *workv1.ManifestWork:
		old, err := oldOf[workv1.ManifestWork](a)
		if err != nil {
			return err
		}
		changed = workChanges(obj, old)
	case *addonv1alpha1.ManagedClusterAddOn:
		old, err := oldOf[addonv1alpha1.ManagedClusterAddOn](a)
		if err != nil {
			return err
		}
		changed = registrationChanges(agent, obj, old)
	}
	if len(changed) == 0 {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
		fmt.Errorf("the agent of cluster %s may not change %s", agent.Cluster, strings.Join(changed, ", ")))
}

// clusterChanges names what changed of a ManagedCluster that is not its agent's: all but the addresses that the cluster
// is reached by, the agent's own annotations, and the status.
func clusterChanges(mc, old *clusterv1.ManagedCluster) []string {
	changed := metadataChanges(&mc.ObjectMeta, &old.ObjectMeta)
	if !slices.Equal(mc.Finalizers, old.Finalizers) {
		changed = append(changed, "metadata.finalizers")
	}
	for name, differs := range map[string]bool{
		"spec.hubAcceptsClient":     mc.Spec.HubAcceptsClient != old.Spec.HubAcceptsClient,
		"spec.leaseDurationSeconds": mc.Spec.LeaseDurationSeconds != old.Spec.LeaseDurationSeconds,
		"spec.taints":               !equality.Semantic.DeepEqual(mc.Spec.Taints, old.Spec.Taints),
	} {
		if differs {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// workChanges names what changed of a ManifestWork that is not the agent's: all but finalizers and status.
func workChanges(work, old *workv1.ManifestWork) []string {
	changed := metadataChanges(&work.ObjectMeta, &old.ObjectMeta)
	if !equality.Semantic.DeepEqual(work.Spec, old.Spec) {
		changed = append(changed, "spec")
	}
	return changed
}

func metadataChanges(meta, old *metav1.ObjectMeta) []string {
	var changed []string
	if !maps.Equal(meta.Labels, old.Labels) {
		changed = append(changed, "metadata.labels")
	}
	if !maps.Equal(hubAnnotations(meta), hubAnnotations(old)) {
		changed = append(changed, "metadata.annotations outside "+agentAnnotations)
	}
	if !equality.Semantic.DeepEqual(meta.OwnerReferences, old.OwnerReferences) {
		changed = append(changed, "metadata.ownerReferences")
	}
	return changed
}

func hubAnnotations(meta *metav1.ObjectMeta) map[string]string {
	kept := maps.Clone(meta.Annotations)
	maps.DeleteFunc(kept, func(name, _ string) bool { return strings.HasPrefix(name, agentAnnotations) })
	return kept
}

// registrationChanges names the registrations of an add-on that its cluster's agent changed otherwise than it has to. With
// a subject of its choice it would choose whom the add-on's signers certify (S3); what it does choose is whether the add-on
// comes with a certificate or a token, and in the second case the subject is the token's (spec 2.6).
func registrationChanges(agent identity.Agent, mca, old *addonv1alpha1.ManagedClusterAddOn) []string {
	const field = "status.registrations"
	now, before := mca.Status.Registrations, old.Status.Registrations
	if len(now) != len(before) {
		return []string{field}
	}
	addon := identity.AddOnAgent{Cluster: agent.Cluster, AddOn: mca.Name}
	for i := range now {
		if equality.Semantic.DeepEqual(now[i], before[i]) {
			continue
		}
		//lint:ignore SA1019 deprecated for users, and what is stored
		signer, signerBefore, subject := now[i].SignerName, before[i].SignerName, now[i].Subject
		if signer != signerBefore || signer != identity.KubeSigner || !addOnSubject(addon, subject, mca.Status.KubeClientDriver) {
			return []string{fmt.Sprintf("%s[%d]", field, i)}
		}
	}
	return nil
}

// addOnSubject tells whether an agent may write this as whom an add-on is on the hub.
func addOnSubject(addon identity.AddOnAgent, subject addonv1alpha1.Subject, driver string) bool {
	if len(subject.OrganizationUnits) > 0 {
		return false
	}
	if driver == tokenDriver {
		return subject.User == addon.ServiceAccount() && len(subject.Groups) == 0
	}
	if subject.User == "" {
		return len(subject.Groups) == 0
	}
	named, ok := identity.ParseAddOnAgent(subject.User)
	return ok && named.Cluster == addon.Cluster && named.AddOn == addon.AddOn && named.DefaultGroups(subject.Groups)
}
