package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"nave/pkg/lab/process"
	"nave/pkg/pki"
)

const (
	stateFile    = "lab.json"
	stateVersion = 1
)

// ErrNotALab says that a folder holds no lab, so nothing in it may be touched.
var ErrNotALab = errors.New("not a lab")

// state is what lab.json holds.
type state struct {
	Version int    `json:"version"`
	Binary  string `json:"binary"`
	Nodes   int    `json:"nodes"`             // of each cluster
	MadeDir bool   `json:"madeDir,omitempty"` // the folder itself is the lab's to remove
	Parts   []Part `json:"parts"`             // in the order in which they depend on each other
}

// Role is what a part of a lab is.
type Role string

// The roles, in the order of their start. Parts end in the reverse order.
const (
	RoleHub               Role = "hub"
	RoleAPIServer         Role = "kube-apiserver"
	RoleControllerManager Role = "kube-controller-manager"
	RoleAgent             Role = "agent"
)

// Part is one process of a lab.
type Part struct {
	Name    string     `json:"name"`
	Role    Role       `json:"role"`
	Cluster string     `json:"cluster,omitempty"` // empty for the hub
	Address string     `json:"address,omitempty"` // where it listens, if it does
	Settled bool       `json:"settled,omitempty"` // it was ready once, so others know its address
	Args    []string   `json:"args,omitempty"`    // of its last start
	Process process.ID `json:"process"`
}

func loadState(dir string) (state, error) {
	file := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("%s: %w (it has no %s)", dir, ErrNotALab, stateFile)
	}
	if err != nil {
		return state{}, fmt.Errorf("lab in %s: %w", dir, err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return state{}, fmt.Errorf("lab in %s: read %s: %w", dir, stateFile, err)
	}
	if s.Version != stateVersion {
		return state{}, fmt.Errorf("lab in %s: %s has version %d, this binary knows %d; use the binary that made it (%s)", dir, stateFile, s.Version, stateVersion, s.Binary)
	}
	return s, nil
}

func (s state) save(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("lab in %s: %w", dir, err)
	}
	if err := pki.WriteFile(filepath.Join(dir, stateFile), text, 0o600); err != nil {
		return fmt.Errorf("lab in %s: %w", dir, err)
	}
	return nil
}

// index is -1 for an unknown part.
func (s state) index(name string) int {
	return slices.IndexFunc(s.Parts, func(p Part) bool { return p.Name == name })
}

// Part returns what the lab knows of a part.
func (l *Lab) Part(name string) (Part, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.state.index(name)
	if i < 0 {
		return Part{}, fmt.Errorf("lab in %s has no part %q", l.dir, name)
	}
	return l.state.Parts[i], nil
}

// Parts returns all parts in the order of their start.
func (l *Lab) Parts() []Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.state.Parts)
}

// change alters a part and keeps it.
func (l *Lab) change(name string, alter func(*Part)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.state.index(name)
	if i < 0 {
		return fmt.Errorf("lab in %s has no part %q", l.dir, name)
	}
	alter(&l.state.Parts[i])
	return l.state.save(l.dir)
}
