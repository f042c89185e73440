package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/agent"
	"nave/pkg/hub"
	"nave/pkg/identity"
	"nave/pkg/pki"
)

const (
	// certificateNotice is how long before its end a certificate is worth a warning. Those of the hub itself are renewed
	// four months before, agents' at the latest when a fifth of their life is left.
	certificateNotice = 30 * 24 * time.Hour

	// clusterPage is how many clusters are asked for at a time, and clusterNames how many of them are named in a message.
	clusterPage, clusterNames = 500, 5

	// stateGood is the state of what needs no attention.
	stateGood = "good"
)

func (g *global) certificateCommand() *cobra.Command {
	return group("certificate", "Certificates of hub and agent: look at them, replace the hub's certificate authorities", g.certificateCheck(), g.rotateCA())
}

func (g *global) certificateCheck() *cobra.Command {
	var dataDir, output string
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List the certificates in the data directory of a hub or an agent and when they end",
		Long: "Lists the certificates in the data directory of a hub or an agent and when they end, whether or not it runs.\n" +
			"It exits with 1 if one has ended, has not begun, or ends within the time of --within.",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if !slices.Contains([]string{"table", "json"}, output) {
				return usageError{fmt.Errorf("--output %q is neither table nor json", output)}
			}
			all, err := certificates(dataDir)
			if err != nil {
				return err
			}
			rows := certificateRows(all, time.Now(), within)
			if err := g.printCertificates(rows, output); err != nil {
				return err
			}
			return attention(rows)
		},
	}
	addDataDir(cmd.Flags(), &dataDir)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().DurationVar(&within, "within", certificateNotice, "how long before its end a certificate is worth a warning")
	return cmd
}

// certificates are those of the hub and of the agent that have their data in the directory.
func certificates(dataDir string) ([]hub.Certificate, error) {
	all, err := hub.Certificates(dataDir)
	if err != nil {
		return nil, err
	}
	file, leaf, err := agent.Certificate(dataDir)
	if err != nil {
		return nil, err
	}
	if leaf != nil {
		all = append(all, hub.Certificate{Name: "agent", File: file, Certificate: leaf})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("neither a hub nor an agent that has joined has its data in %s; name the directory with --data-dir", dataDir)
	}
	return all, nil
}

// certificateRow is a certificate as it is printed, or a key alone, which never ends.
type certificateRow struct {
	What  string     `json:"what"`
	For   string     `json:"for"`
	Until *time.Time `json:"until,omitempty"`
	Days  *int       `json:"days,omitempty"`
	State string     `json:"state"`
	File  string     `json:"file"`
}

func certificateRows(all []hub.Certificate, now time.Time, within time.Duration) []certificateRow {
	var rows []certificateRow
	for _, c := range all {
		if c.Certificate == nil {
			rows = append(rows, certificateRow{What: c.Name, State: stateGood, File: c.File})
			continue
		}
		left := c.Certificate.NotAfter.Sub(now)
		state := stateGood
		switch {
		case left <= 0:
			state = "expired"
		case now.Before(c.Certificate.NotBefore):
			state = "not yet valid"
		case left <= within:
			state = "ends soon"
		}
		until, days := c.Certificate.NotAfter.UTC(), int(left.Hours()/24)
		rows = append(rows, certificateRow{
			What: c.Name, For: c.Certificate.Subject.CommonName, Until: &until, Days: &days, State: state, File: c.File,
		})
	}
	return rows
}

func (g *global) printCertificates(rows []certificateRow, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(g.streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	}
	table := tabwriter.NewWriter(g.streams.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "WHAT\tFOR\tUNTIL\tDAYS\tSTATE")
	for _, r := range rows {
		until, days := "never", "-"
		if r.Until != nil {
			until, days = r.Until.Format(time.RFC3339), strconv.Itoa(*r.Days)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.What, cmp.Or(r.For, "-"), until, days, r.State)
	}
	return table.Flush()
}

func attention(rows []certificateRow) error {
	var texts []string
	for _, r := range rows {
		if r.State != stateGood {
			texts = append(texts, fmt.Sprintf("%s (%s): %s", r.What, r.For, r.State))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("certificates need attention: %s; a running hub renews its own, and nave certificate rotate-ca replaces certificate authorities", strings.Join(texts, ", "))
}

func (g *global) rotateCA() *cobra.Command {
	steps := group("rotate-ca", "Replace the hub's certificate authorities, in steps that can be undone",
		g.rotation(hub.Prepare, "Make the new certificate authorities and let everybody trust them",
			"The new ones do not sign yet. Agents that are connected learn them within the hour."),
		g.rotation(hub.Activate, "Let the new certificate authorities sign",
			"The old ones stay trusted: agents that were away still know the hub, learn the new ones when they come back,\nand renew their certificates."),
		g.rotationFinish(),
		g.rotation(hub.RollBack, "Undo the last step", "It goes from activated back to prepared, and from prepared back to no rotation."),
		g.rotationStatus(),
	)
	steps.Long = "Replaces the certificate authorities of the hub, the one that signs its certificate and the one that signs those of agents,\n" +
		"while hub and agents run:\n\n" +
		"  nave certificate rotate-ca prepare     the new ones are trusted\n" +
		"  nave certificate rotate-ca activate    the new ones sign\n" +
		"  nave certificate rotate-ca finish      the old ones are forgotten\n\n" +
		"A running hub takes each step within seconds, another one when it starts."
	return steps
}

func (g *global) rotation(step hub.Rotation, short, long string) *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   string(step),
		Short: short,
		Long:  short + ".\n" + long,
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if err := hub.RotateCA(dataDir, step, time.Now()); err != nil {
				return err
			}
			return g.printRotation(dataDir)
		},
	}
	addDataDir(cmd.Flags(), &dataDir)
	return cmd
}

func (g *global) rotationStatus() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say where the rotation stands, and what comes next",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			return g.printRotation(dataDir)
		},
	}
	addDataDir(cmd.Flags(), &dataDir)
	return cmd
}

func (g *global) printRotation(dataDir string) error {
	stages, err := hub.RotationStages(dataDir, time.Now())
	if err != nil {
		return err
	}
	next := map[pki.Stage]string{
		pki.Settled:   "no rotation is under way; nave certificate rotate-ca prepare begins one",
		pki.Prepared:  "the new certificate authorities are trusted, the old ones sign; next: activate, or rollback",
		pki.Activated: "the new certificate authorities sign, the old ones are trusted; next: finish, once every agent has renewed its certificate, or rollback",
	}
	if stages[0] != stages[1] {
		fmt.Fprintf(g.streams.Out, "a step was interrupted: one certificate authority is %s, the other %s; take the same step again, or rollback\n", stages[0], stages[1])
		return nil
	}
	fmt.Fprintln(g.streams.Out, next[stages[0]])
	return nil
}

func (g *global) rotationFinish() *cobra.Command {
	var a access
	var force bool
	cmd := &cobra.Command{
		Use:   string(hub.Finish),
		Short: "Forget the old certificate authorities",
		Long: "Forgets the old certificate authorities. What they signed is worth nothing then: agents that have not renewed their\n" +
			"certificates have to join again. Therefore it asks the running hub first, and refuses while there are such agents.",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if !force {
				if err := a.checkRenewed(cmd.Context()); err != nil {
					return err
				}
			}
			if err := hub.RotateCA(a.dataDir, hub.Finish, time.Now()); err != nil {
				return err
			}
			return g.printRotation(a.dataDir)
		},
	}
	a.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "do not ask the hub; agents that have not renewed their certificates have to join again")
	return cmd
}

// checkRenewed refuses while agents depend on another CA than the one that signs now.
func (a *access) checkRenewed(ctx context.Context) error {
	id, err := hub.ClientCAID(a.dataDir, time.Now())
	if err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return fmt.Errorf("%w; or do without asking it (--force)", err)
	}
	var names []string
	count := 0
	options := metav1.ListOptions{Limit: clusterPage}
	for {
		list, err := c.clusters.ClusterV1().ManagedClusters().List(ctx, options)
		if err != nil {
			return fmt.Errorf("list clusters of hub %s: %w", c.config.Host, err)
		}
		for i := range list.Items {
			if dependsOnOther(&list.Items[i], id) {
				count++
				names = append(names, list.Items[i].Name)
			}
		}
		names = names[:min(len(names), clusterNames)]
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if count == 0 {
		return nil
	}
	more := ""
	if count > len(names) {
		more = ", …"
	}
	return fmt.Errorf("agents of %d clusters still come with certificates of the old certificate authority (%s%s); they renew them while they are connected; to cut them off, use --force", count, strings.Join(names, ", "), more)
}

// dependsOnOther tells whether a cluster's agent has a certificate of another CA than the one with this id. Of one that
// joined before the hub noted CAs nobody knows, so it counts.
func dependsOnOther(mc *clusterv1.ManagedCluster, id string) bool {
	signedBy := mc.Annotations[identity.ClientCAAnnotation]
	if signedBy == "" && !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined) {
		return false
	}
	return mc.Spec.HubAcceptsClient && mc.DeletionTimestamp == nil && signedBy != id
}
