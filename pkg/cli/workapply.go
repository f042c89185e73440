package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"nave/pkg/workload"
)

func (g *global) workApply() *cobra.Command {
	var to workAccess
	var in input
	var wait waiting
	var force bool
	var by byPlacement
	dryRun := "none"
	cmd := &cobra.Command{
		Use:   "apply -f FILE {--cluster NAME | --placement NAME}",
		Short: "Put Kubernetes YAML into works for clusters, and keep those in line with it",
		Long: `Puts plain Kubernetes YAML or JSON into works for clusters. What is too large for one work is split into NAME, NAME-2 and so
on; an object stays in its work from one call to the next if it can. Objects that are no longer in the input are deleted from
the cluster, works that nothing is left for from the hub. An object that has to move to another work stays in the old one until
the agent has applied it in the new one.

ManifestWorks in the input are applied as they are, to the clusters that are named. A work that something else made is not
touched without --force. Of a work, the command sets the objects and what its flags say; whatever else others have set on it
stays, and what a flag said in an earlier call goes when a later one leaves the flag out.

With --placement the objects go to the clusters that a placement selects, now and later: into a ManifestWorkReplicaSet, which must
be small enough for one work. --rollout says how clusters get what is new; --wait follows that to its end. A replica set that exists
goes on as it did if no flag says how. It does not leave its placement for another one without --force.`,
		Example: `  nave work apply -f app.yaml --cluster shop-1,shop-2 --wait
  helm template regatta ./chart | nave work apply -f - --name regatta --cluster shop-1
  nave work apply -f app/ --cluster shop-1 --dry-run=client > works.yaml
  nave work apply -f app.yaml --placement app -n shops --rollout progressive --max-concurrency 25% --wait=10m`,
		Args: exactly(0, "no arguments, what to apply is given with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			target, err := by.target(cmd.Flags(), to.clusters)
			if err != nil {
				return err
			}
			if target == nil && len(to.clusters) == 0 {
				return usageError{errors.New("it is not said where to apply; say --cluster NAME or --placement NAME, nave cluster list and nave placement list -A show those that there are")}
			}
			objects, a, err := in.read(g)
			if err != nil {
				return err
			}
			a.Force, a.Timeout, a.DryRun = force, wait.timeout, dryRun == "server"
			if target != nil && a.Set == "" {
				return usageError{errors.New("a ManifestWork cannot be put into a replica set; give the objects that it holds")}
			}
			switch {
			case target != nil && dryRun == "client":
				return g.renderByPlacement(target, a, objects)
			case target != nil && (dryRun == "none" || dryRun == "server"):
				return g.applyByPlacement(cmd.Context(), &to.access, target, a, objects, wait)
			case dryRun == "none":
				return g.apply(cmd.Context(), &to, a, objects, wait)
			case dryRun == "client":
				return g.render(&to, a, objects)
			case dryRun == "server":
				return g.try(cmd.Context(), &to, a, objects)
			}
			return usageError{fmt.Errorf("--dry-run %q is unknown; it is none, client or server", dryRun)}
		},
	}
	to.addFlags(cmd.Flags())
	by.addFlags(cmd.Flags())
	in.addFlags(cmd.Flags())
	wait.addFlags(cmd.Flags(), false, "until all is applied and available")
	cmd.Flags().BoolVar(&force, "force", false, "take over works of the same name that something else made, or move a replica set to another placement")
	cmd.Flags().StringVar(&dryRun, "dry-run", dryRun, "print the works, or the replica set, instead: client, as for a hub that has none of them, or server, as the hub would have them")
	return cmd
}

// apply writes the works of every cluster, one after the other, and then waits for all of them; a cluster that fails does not
// keep the others back.
func (g *global) apply(ctx context.Context, to *workAccess, a *workload.Applier, objects []workload.Object, wait waiting) error {
	hub, err := to.connect(ctx)
	if err != nil {
		return err
	}
	a.Hub = hub.works
	var failed []error
	var written []workload.Set
	for _, cluster := range to.clusters {
		var sets []workload.Set
		a.Tell = func(c workload.Change) {
			g.tellChange(c)
			if c.Verb != workload.Deleted && (c.Work == a.Set || a.Set == "" || !workload.PartOf(a.Set, c.Work)) {
				sets = append(sets, workload.Set{Hub: hub.works, Cluster: cluster, Name: c.Work})
			}
		}
		if err := a.Apply(ctx, cluster, objects); err != nil {
			failed = append(failed, err)
			continue
		}
		written = append(written, sets...)
	}
	if !wait.on {
		return oneLine(failed)
	}
	for _, set := range written {
		_, err := set.Await(ctx, wait.timeout, g.tellManifest(set.Cluster))
		failed = appendError(failed, err)
	}
	return oneLine(failed)
}

func appendError(all []error, err error) []error {
	if err == nil {
		return all
	}
	return append(all, err)
}

func (g *global) tellChange(c workload.Change) {
	if c.Verb == workload.Deleted {
		fmt.Fprintf(g.streams.Out, "work %s of cluster %s %s\n", c.Work, c.Cluster, c.Verb)
		return
	}
	fmt.Fprintf(g.streams.Out, "work %s of cluster %s %s (%d manifests)\n", c.Work, c.Cluster, c.Verb, c.Manifests)
}

// render prints works without asking a hub.
func (g *global) render(to *workAccess, a *workload.Applier, objects []workload.Object) error {
	for _, cluster := range to.clusters {
		works, err := a.Render(cluster, objects)
		if err != nil {
			return err
		}
		for _, work := range works {
			if err := g.printYAML(work); err != nil {
				return err
			}
		}
	}
	return nil
}

// try prints works as the hub would have them.
func (g *global) try(ctx context.Context, to *workAccess, a *workload.Applier, objects []workload.Object) error {
	hub, err := to.connect(ctx)
	if err != nil {
		return err
	}
	a.Hub = hub.works
	var failed []error
	a.Tell = func(c workload.Change) {
		if c.Verb == workload.Deleted {
			fmt.Fprintf(g.streams.Err, "work %s of cluster %s would be deleted\n", c.Work, c.Cluster)
			return
		}
		work, err := workload.Printable(c.Result)
		if err == nil {
			err = g.printYAML(work)
		}
		failed = appendError(failed, err)
	}
	for _, cluster := range to.clusters {
		failed = appendError(failed, a.Apply(ctx, cluster, objects))
	}
	return oneLine(failed)
}

func (g *global) printYAML(work *unstructured.Unstructured) error {
	text, err := yaml.Marshal(work.Object)
	if err != nil {
		return fmt.Errorf("print work %s: %w", work.GetName(), err)
	}
	_, err = fmt.Fprintf(g.streams.Out, "---\n%s", text)
	return err
}
