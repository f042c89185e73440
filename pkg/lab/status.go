package lab

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// State is whether a part runs.
type State string

// The states of a part.
const (
	Running    State = "running"
	Stopped    State = "stopped"     // it ran once and does not now
	NotStarted State = "not started" // the lab did not get as far as this part
)

// PartStatus is a part with its state at one moment.
type PartStatus struct {
	Part
	State State
	Log   string // file
}

// Status returns the state of every part of the lab in dir, in the order of their start.
func Status(dir string) ([]PartStatus, error) {
	l, err := Open(dir)
	if err != nil {
		return nil, err
	}
	var all []PartStatus
	for _, p := range l.Parts() {
		s := PartStatus{Part: p, State: Stopped, Log: l.LogFile(p.Name)}
		switch {
		case p.Process.Alive():
			s.State = Running
		case len(p.Args) == 0:
			s.State = NotStarted
		}
		all = append(all, s)
	}
	return all, nil
}

// WriteStatus writes parts as a table for people.
func WriteStatus(out io.Writer, parts []PartStatus) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PART\tSTATE\tPID\tADDRESS\tLOG")
	for _, p := range parts {
		pid, address := "-", "-"
		if p.State == Running {
			pid = fmt.Sprint(p.Process.PID)
		}
		if p.Address != "" {
			address = "https://" + p.Address
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.State, pid, address, p.Log)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
