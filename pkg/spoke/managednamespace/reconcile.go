package managednamespace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	labelPrefix = "clusterset.open-cluster-management.io/"

	conditionAvailable = "NamespaceAvailable"
	reasonApplied      = "NamespaceApplied"
	reasonFailed       = "NamespaceApplyFailed"
)

// errTerminating says that the namespace is just being deleted; it is made again once it is gone.
var errTerminating = errors.New("it is being deleted")

// labelOf marks the namespaces that a hub wants, with "true", or wanted once, with "false".
func labelOf(server string) string {
	sum := sha256.Sum256([]byte(server))
	return labelPrefix + hex.EncodeToString(sum[:])[:validation.LabelValueMaxLength]
}

// clockApart tells whether the hub found this cluster's clock to be wrong; nothing is reported then, as no time means
// anything.
func clockApart(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionFalse(mc.Status.Conditions, clusterv1.ManagedClusterConditionClockSynced)
}

func (m *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := m.clusters.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err != nil || mc.DeletionTimestamp != nil {
		return 0, m.release(ctx, nil)
	}
	results := map[string]error{}
	for _, n := range mc.Status.ManagedNamespaces {
		if _, done := results[n.Name]; !done { // two sets may want one
			results[n.Name] = m.ensure(ctx, n.Name)
		}
	}
	errs := []error{m.release(ctx, results)}
	for _, err := range results {
		if err != nil && !errors.Is(err, errTerminating) { // its end is an event
			errs = append(errs, err)
		}
	}
	return 0, errors.Join(append(errs, m.report(ctx, mc, results))...)
}

// ensure makes a namespace be there with the label.
func (m *Controller) ensure(ctx context.Context, name string) error {
	if ns, err := m.namespaces.Get(name); err == nil {
		if ns.DeletionTimestamp != nil {
			return errTerminating
		}
		if ns.Labels[m.label] == "true" {
			return nil
		}
		return m.mark(ctx, name, "true")
	}
	_, err := m.Spoke.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{m.label: "true"}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return m.mark(ctx, name, "true")
	}
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	m.Log.WithField(log.FieldObject, "namespace "+name).Info("namespace of a cluster set is made")
	return nil
}

// release marks the namespaces that are not wanted any more.
func (m *Controller) release(ctx context.Context, wanted map[string]error) error {
	held, err := m.namespaces.List(labels.SelectorFromSet(labels.Set{m.label: "true"}))
	if err != nil {
		return fmt.Errorf("namespaces of cluster sets: %w", err)
	}
	var errs []error
	for _, ns := range held {
		if _, still := wanted[ns.Name]; still {
			continue
		}
		if err := m.mark(ctx, ns.Name, "false"); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *Controller) mark(ctx context.Context, name, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{m.label: value}}})
	if err != nil {
		return fmt.Errorf("label of namespace %s: %w", name, err)
	}
	ns, err := m.Spoke.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("label namespace %s: %w", name, err)
	}
	if value == "true" && ns.DeletionTimestamp != nil {
		return errTerminating
	}
	m.Log.WithFields(logrus.Fields{log.FieldObject: "namespace " + name}).Infof("namespace of a cluster set: %s", value)
	return nil
}

// report tells the hub how it went, where that differs from what it knows.
func (m *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, results map[string]error) error {
	next := withConditions(mc.Status.ManagedNamespaces, results)
	if clockApart(mc) || equality.Semantic.DeepEqual(next, mc.Status.ManagedNamespaces) {
		return nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"status": map[string]any{"managedNamespaces": next}})
	if err != nil {
		return err
	}
	if _, err := m.Hub.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("namespaces in status of managed cluster %s: %w", mc.Name, err)
	}
	return nil
}

// withConditions is the list with how it went with each namespace.
func withConditions(before []clusterv1.ClusterSetManagedNamespaceConfig, results map[string]error) []clusterv1.ClusterSetManagedNamespaceConfig {
	var after []clusterv1.ClusterSetManagedNamespaceConfig
	for i := range before {
		n := *before[i].DeepCopy()
		condition := metav1.Condition{Type: conditionAvailable, Status: metav1.ConditionTrue, Reason: reasonApplied, Message: "Namespace successfully applied and managed"}
		if err := results[n.Name]; err != nil {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonFailed, fmt.Sprintf("Failed to apply namespace: %v", err)
		}
		meta.SetStatusCondition(&n.Conditions, condition)
		after = append(after, n)
	}
	return after
}
