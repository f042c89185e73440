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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"nave/pkg/identity"
	"nave/pkg/token"
)

// defaultTTL is enough to walk to the other machine, also tomorrow morning.
const defaultTTL = 24 * time.Hour

func (g *global) tokenCommand() *cobra.Command {
	return group("token", "Tokens with which clusters join the hub", g.tokenCreate(), g.tokenList(), g.tokenRevoke())
}

func (g *global) tokenCreate() *cobra.Command {
	var a access
	var ttl time.Duration
	record := token.Record{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, print it on stdout, and the line that joins with it on stderr",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			if ttl <= 0 {
				return usageError{fmt.Errorf("--ttl %s: a token has to live for some time", ttl)}
			}
			if record.Cluster != "" {
				if reasons := identity.CheckClusterName(record.Cluster); len(reasons) > 0 {
					return usageError{fmt.Errorf("--cluster %s: %s", record.Cluster, reasons[0])}
				}
			}
			return g.createToken(cmd.Context(), &a, record, ttl)
		},
	}
	a.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&ttl, "ttl", defaultTTL, "how long the token can be used")
	cmd.Flags().StringVar(&record.Cluster, "cluster", "", "the one cluster that may join with it; also lets a cluster of that name join again")
	cmd.Flags().BoolVar(&record.AutoAccept, "auto-accept", false, "accept the cluster that joins with it without being asked")
	return cmd
}

func (g *global) createToken(ctx context.Context, a *access, record token.Record, ttl time.Duration) error {
	hub, err := a.connect()
	if err != nil {
		return err
	}
	ca, err := hub.ca()
	if err != nil {
		return err
	}
	made, err := token.New(token.CAHash(ca))
	if err != nil {
		return err
	}
	record.ID, record.Hash, record.Expires, record.Bound = made.ID, token.Hash(made.Secret), time.Now().Add(ttl), record.Cluster != ""
	if _, err := hub.kube.CoreV1().Secrets(token.Namespace).Create(ctx, record.Secret(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("keep join token on hub %s: %w", hub.config.Host, err)
	}
	name := ""
	if record.Cluster != "" {
		name = " --cluster-name " + record.Cluster
	}
	fmt.Fprintf(g.streams.Err, "On a machine that reaches the cluster, until %s:\n\n  NAVE_TOKEN=%s nave agent --server %s%s\n\n",
		record.Expires.Local().Format(time.DateTime), made, shellWord(hub.config.Host), name)
	fmt.Fprintln(g.streams.Out, made)
	return nil
}

// shellWord quotes the URL of a host with an IPv6 address, whose brackets are a pattern of files to a shell.
func shellWord(url string) string {
	if strings.ContainsAny(url, "[]") {
		return "'" + url + "'"
	}
	return url
}

func (g *global) tokenList() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens and what became of them",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := a.connect()
			if err != nil {
				return err
			}
			records, err := hub.tokens(cmd.Context())
			if err != nil {
				return err
			}
			return g.printTokens(records, time.Now())
		},
	}
	a.addFlags(cmd.Flags())
	return cmd
}

func (c *clients) tokens(ctx context.Context) ([]token.Record, error) {
	list, err := c.kube.CoreV1().Secrets(token.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(token.SecretType)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list join tokens of hub %s: %w", c.config.Host, err)
	}
	var records []token.Record
	for i := range list.Items {
		record, err := token.FromSecret(&list.Items[i])
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	slices.SortFunc(records, func(x, y token.Record) int { return cmp.Or(x.Expires.Compare(y.Expires), cmp.Compare(x.ID, y.ID)) })
	return records, nil
}

func (g *global) printTokens(records []token.Record, now time.Time) error {
	table := tabwriter.NewWriter(g.streams.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tCLUSTER\tAUTO-ACCEPT\tEXPIRES")
	for _, r := range records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%t\t%s\n", r.ID, r.State(now), cmp.Or(r.Cluster, "<any>"), r.AutoAccept, r.Expires.UTC().Format(time.RFC3339))
	}
	return table.Flush()
}

func (g *global) tokenRevoke() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Make a token unusable",
		Args:  exactly(1, "the id of a token"),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			hub, err := a.connect()
			if err != nil {
				return err
			}
			if err := hub.revoke(cmd.Context(), arguments[0]); err != nil {
				return err
			}
			fmt.Fprintf(g.streams.Out, "token %s is revoked\n", arguments[0])
			return nil
		},
	}
	a.addFlags(cmd.Flags())
	return cmd
}

func (c *clients) revoke(ctx context.Context, id string) error {
	// A whole token is what a person may have at hand.
	if whole, err := token.Parse(id); err == nil {
		id = whole.ID
	}
	secrets := c.kube.CoreV1().Secrets(token.Namespace)
	stored, err := secrets.Get(ctx, token.SecretName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return errors.New("there is no join token with this id; nave token list shows them")
	}
	if err != nil {
		return fmt.Errorf("join token %s: %w", id, err)
	}
	record, err := token.FromSecret(stored)
	if err != nil {
		return err
	}
	record.RevokedAt = time.Now()
	next := record.Secret()
	next.ObjectMeta = stored.ObjectMeta
	if _, err := secrets.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("revoke join token %s: %w", id, err)
	}
	return nil
}
