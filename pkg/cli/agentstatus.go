package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"nave/pkg/agent"
	"nave/pkg/agentstate"
)

func (g *global) agentStatusCommand() *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the agent of this machine stands; exit code 0 if it is connected to its hub",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := g.load(cmd, hubFlags()); err != nil {
				return err
			}
			if output != "" && output != "json" {
				return usageError{fmt.Errorf("--output %s is unknown; it is json", output)}
			}
			status, err := agent.ReadStatus(dir)
			if err != nil {
				return err
			}
			if err := writeStatus(g.streams.Out, status, output, time.Now()); err != nil {
				return err
			}
			if !status.Connected {
				return errors.New(status.Why)
			}
			return nil
		},
	}
	addDataDir(cmd.Flags(), &dir)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for programs")
	return cmd
}

func writeStatus(out io.Writer, s agent.Status, output string, now time.Time) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(s)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range statusRows(s, now) {
		fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
	}
	return table.Flush()
}

// statusRows are the lines of the screen: what, and how it is.
func statusRows(s agent.Status, now time.Time) [][2]string {
	running := "not running; this is what it left"
	if s.Running {
		running = "running"
	}
	connected := "yes"
	if !s.Connected {
		connected = "no: " + s.Why
	}
	rows := [][2]string{
		{"agent", fmt.Sprintf("%s, version %s", running, s.Version)},
		{"hub", orDash(s.Hub)},
		{"cluster", fmt.Sprintf("%s (agent %s)", orDash(s.Cluster), orDash(s.Agent))},
		{"connected", connected},
		{"accepted", yes(s.Accepted)},
		{"joined", yes(s.Joined)},
		{"certificate", certificateText(s.CertificateUntil, now)},
		{"last heartbeat", ago(s.LastHeartbeat, now)},
	}
	for _, fault := range []struct {
		what string
		is   *agentstate.Fault
	}{{"hub connection", s.HubConnection}, {"bootstrap", s.Bootstrap}} {
		if fault.is != nil {
			rows = append(rows, [2]string{fault.what, faultText(*fault.is, now)})
		}
	}
	return append(rows, [2]string{"last error", faultText(s.LastError, now)})
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func certificateText(until, now time.Time) string {
	switch {
	case until.IsZero():
		return "-"
	case now.After(until):
		return fmt.Sprintf("expired at %s", until.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("until %s (%d days)", until.UTC().Format(time.RFC3339), int(until.Sub(now).Hours()/24))
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(t)))
}

func faultText(f agentstate.Fault, now time.Time) string {
	if f.Message == "" {
		return "-"
	}
	return fmt.Sprintf("%s: %s, at %s", f.Part, f.Message, ago(f.At, now))
}
