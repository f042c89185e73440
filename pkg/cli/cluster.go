package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
)

func (g *global) clusterCommand() *cobra.Command {
	return group("cluster", "Managed clusters of the hub", g.clusterList(), g.clusterAccept(), g.clusterReject(), g.clusterRemove())
}

func (g *global) clusterList() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the clusters and how they are",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := a.connect()
			if err != nil {
				return err
			}
			list, err := hub.clusters.ClusterV1().ManagedClusters().List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list clusters of hub %s: %w", hub.config.Host, err)
			}
			return g.printClusters(list.Items, time.Now())
		},
	}
	a.addFlags(cmd.Flags())
	return cmd
}

func (g *global) printClusters(clusters []clusterv1.ManagedCluster, now time.Time) error {
	slices.SortFunc(clusters, func(x, y clusterv1.ManagedCluster) int { return cmp.Compare(x.Name, y.Name) })
	table := tabwriter.NewWriter(g.streams.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tAVAILABLE\tVERSION\tAGE")
	for i := range clusters {
		c := &clusters[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", c.Name, stateOf(c), availableOf(c), cmp.Or(c.Status.Version.Kubernetes, "-"),
			duration.HumanDuration(now.Sub(c.CreationTimestamp.Time)))
	}
	return table.Flush()
}

// stateOf is one word for where a cluster stands with the hub.
func stateOf(c *clusterv1.ManagedCluster) string {
	switch {
	case c.DeletionTimestamp != nil:
		return "leaving"
	case c.Spec.HubAcceptsClient && meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionJoined):
		return "joined"
	case c.Spec.HubAcceptsClient:
		return "accepted"
	case meta.FindStatusCondition(c.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != nil:
		return "rejected"
	}
	return "pending"
}

func availableOf(c *clusterv1.ManagedCluster) string {
	if available := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ManagedClusterConditionAvailable); available != nil {
		return string(available.Status)
	}
	return "-"
}

// forEach is a verb that does the same with every cluster that is named.
func (g *global) forEach(use, short string, do func(ctx context.Context, hub *clients, name string) error) *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   use + " NAME...",
		Short: short,
		Args: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) == 0 {
				return usageError{fmt.Errorf("%s takes the names of clusters; nave cluster list shows them", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := a.connect()
			if err != nil {
				return err
			}
			var failed []error
			for _, name := range names {
				if err := do(cmd.Context(), hub, name); err != nil {
					failed = append(failed, err)
				}
			}
			return oneLine(failed)
		},
	}
	a.addFlags(cmd.Flags())
	return cmd
}

// oneLine joins errors; a single one keeps what it is.
func oneLine(errs []error) error {
	if len(errs) <= 1 {
		return errors.Join(errs...)
	}
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

func (g *global) clusterAccept() *cobra.Command {
	return g.forEach("accept", "Let clusters in: approve their waiting requests and give them their rights", func(ctx context.Context, hub *clients, name string) error {
		if err := hub.setAccepted(ctx, name, true); err != nil {
			return err
		}
		approved, err := hub.approveRequests(ctx, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.streams.Out, "cluster %s is accepted, %d signing requests approved\n", name, approved)
		return nil
	})
}

func (g *global) clusterReject() *cobra.Command {
	return g.forEach("reject", "Take clusters their rights away; they stay listed", func(ctx context.Context, hub *clients, name string) error {
		if err := hub.setAccepted(ctx, name, false); err != nil {
			return err
		}
		fmt.Fprintf(g.streams.Out, "cluster %s is rejected\n", name)
		return nil
	})
}

func (c *clients) notFound(name string) error {
	return fmt.Errorf("hub %s has no cluster %s; nave cluster list shows those that asked to join", c.config.Host, name)
}

func (c *clients) setAccepted(ctx context.Context, name string, accepted bool) error {
	body := fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, accepted)
	_, err := c.clusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return c.notFound(name)
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return nil
}

// approveRequests approves what the cluster's agent asked for with a bootstrap identity, and nothing that only bears the
// cluster's label (spec 8, accept rules).
func (c *clients) approveRequests(ctx context.Context, name string) (int, error) {
	requests := c.kube.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{identity.ClusterNameLabel: name}.String()})
	if err != nil {
		return 0, fmt.Errorf("list signing requests of cluster %s: %w", name, err)
	}
	approved := 0
	for i := range list.Items {
		csr := &list.Items[i]
		if len(csr.Status.Conditions) > 0 || !fromBootstrap(csr) {
			continue
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NaveClusterAccept", Message: "accepted by nave cluster accept",
		})
		if _, err := requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
			return approved, fmt.Errorf("approve signing request %s of cluster %s: %w", csr.Name, name, err)
		}
		approved++
	}
	return approved, nil
}

func fromBootstrap(csr *certificatesv1.CertificateSigningRequest) bool {
	const account = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	if strings.HasPrefix(csr.Spec.Username, identity.BootstrapUserPrefix) {
		return slices.Contains(csr.Spec.Groups, identity.BootstrapGroup)
	}
	return csr.Spec.Username == account
}
