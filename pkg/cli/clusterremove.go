package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
)

const (
	// removeTimeout is how long a removal waits for an agent to clean up.
	removeTimeout = 2 * time.Minute
	// forcedTimeout is how long the hub may take for what needs nobody else.
	forcedTimeout = 30 * time.Second
	// removePoll is how often it looks.
	removePoll = 200 * time.Millisecond

	// leftNamed is how many objects a message names of those that it counts.
	leftNamed = 5
	// answerLength bounds what is read of an answer.
	answerLength = 64
)

// removal is what is asked for with the flags of remove.
type removal struct {
	timeout time.Duration
	force   bool
	yes     bool
}

func (g *global) clusterRemove() *cobra.Command {
	var r removal
	cmd := g.forEach("remove", "Remove clusters: what their works applied is cleaned up by their agents first", func(ctx context.Context, hub *clients, name string) error {
		if r.force && !r.yes {
			if err := g.confirm(fmt.Sprintf("Remove cluster %s even if its agent does not clean up? What its works applied then stays on it.", name)); err != nil {
				return err
			}
		}
		behind, err := hub.remove(ctx, name, r)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.streams.Out, "cluster %s is removed%s\n", name, behind)
		return nil
	})
	cmd.Long = `Removes clusters. The agent of each takes what its works applied off the cluster, then the hub forgets the cluster.

It waits for the agent for the time of --timeout. If the cluster is not gone then, it stays in removal, the command says
what is left and ends with 1, and a later call goes on. With --force the hub does without the agent: at once if the cluster
is not available, otherwise after --timeout. What was applied stays on the cluster then. A forced removal ends within
--timeout and half a minute. The hub can do the same by itself, see nave hub --removal-timeout.`
	cmd.Flags().DurationVar(&r.timeout, "timeout", removeTimeout, "how long to wait for the agent to clean up")
	cmd.Flags().BoolVar(&r.force, "force", false, "do without the agent if it does not clean up; what was applied stays on the cluster")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do not ask before --force")
	return cmd
}

// confirm asks a person. Whoever is not there to answer has not agreed.
func (g *global) confirm(question string) error {
	if g.streams.In == nil {
		return usageError{errors.New("nobody can be asked here; say --yes to agree beforehand")}
	}
	fmt.Fprintf(g.streams.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(g.streams.In, answerLength)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		return usageError{errors.New("no answer; say --yes to agree beforehand")}
	}
	return errors.New("nothing was removed")
}

// remove deletes a cluster and waits until it is gone. It returns what is to be said of what stayed behind.
func (c *clients) remove(ctx context.Context, name string, r removal) (behind string, err error) {
	clusters := c.clusters.ClusterV1().ManagedClusters()
	mc, err := clusters.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = clusters.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &mc.UID}})
	}
	if apierrors.IsNotFound(err) {
		return "", c.notFound(name)
	}
	if err != nil {
		return "", fmt.Errorf("remove cluster %s: %w", name, err)
	}
	available := meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if available || !r.force {
		gone, err := c.awaitGone(ctx, mc, r.timeout)
		if gone || err != nil {
			return "", err
		}
	}
	left, err := c.leftOf(ctx, name)
	if err != nil {
		return "", err
	}
	if !r.force {
		return "", fmt.Errorf("cluster %s is still leaving after %s%s; it goes once its agent has cleaned up, or without it by: nave cluster remove --force %s", name, r.timeout, left.waiting(available), name)
	}
	if err := c.force(ctx, mc); err != nil {
		return "", err
	}
	gone, err := c.awaitGone(ctx, mc, forcedTimeout)
	if err == nil && !gone {
		err = fmt.Errorf("cluster %s is still leaving %s after it was let go; look at it with: nave kubectl get managedcluster %s -o yaml", name, forcedTimeout, name)
	}
	return left.behind(), err
}

// force asks the hub to do without the agent.
func (c *clients) force(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, mc.UID, identity.ForceRemovalAnnotation)
	_, err := c.clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("let cluster %s go: %w", mc.Name, err)
	}
	return nil
}

// awaitGone tells whether this life of a cluster ends within a time.
func (c *clients) awaitGone(ctx context.Context, mc *clusterv1.ManagedCluster, timeout time.Duration) (gone bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, removePoll, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := c.clusters.ClusterV1().ManagedClusters().Get(ctx, mc.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, nil // the time is over, not the hub at fault
		}
		return err == nil && now.UID != mc.UID, err
	})
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() == nil && wait.Interrupted(err):
		return false, nil
	}
	return false, fmt.Errorf("remove cluster %s: %w", mc.Name, err)
}

// left is what keeps a cluster from going.
type left struct {
	works, addons int
	names         []string // of some works, with the finalizers that hold them
}

func (c *clients) leftOf(ctx context.Context, name string) (left, error) {
	var l left
	addons, err := c.addons.AddonV1alpha1().ManagedClusterAddOns(name).List(ctx, metav1.ListOptions{Limit: leftNamed})
	if err != nil {
		return l, fmt.Errorf("add-ons of cluster %s: %w", name, err)
	}
	works, err := c.works.WorkV1().ManifestWorks(name).List(ctx, metav1.ListOptions{Limit: leftNamed})
	if err != nil {
		return l, fmt.Errorf("works of cluster %s: %w", name, err)
	}
	l.addons, l.works = counted(len(addons.Items), addons.RemainingItemCount), counted(len(works.Items), works.RemainingItemCount)
	for i := range works.Items {
		w := &works.Items[i]
		held := ""
		if len(w.Finalizers) > 0 {
			held = fmt.Sprintf(" (held by %s)", strings.Join(w.Finalizers, ", "))
		}
		l.names = append(l.names, w.Name+held)
	}
	return l, nil
}

func counted(shown int, more *int64) int {
	if more != nil {
		return shown + int(*more)
	}
	return shown
}

func (l left) waiting(available bool) string {
	text := ""
	if l.works+l.addons > 0 {
		text = fmt.Sprintf(": %s", l)
	}
	if !available {
		text += "; the cluster is not available, so its agent may never do that"
	}
	return text
}

func (l left) behind() string {
	if l.works+l.addons == 0 {
		return ""
	}
	return fmt.Sprintf("; what these applied stays on it: %s", l)
}

// String counts what is left, and names some of it.
func (l left) String() string {
	var parts []string
	if l.addons > 0 {
		parts = append(parts, fmt.Sprintf("%d add-ons", l.addons))
	}
	if l.works > 0 {
		more := ""
		if l.works > len(l.names) {
			more = ", …"
		}
		parts = append(parts, fmt.Sprintf("%d works: %s%s", l.works, strings.Join(l.names, ", "), more))
	}
	return strings.Join(parts, ", ")
}
