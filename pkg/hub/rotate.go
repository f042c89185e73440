package hub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/util/keyutil"

	"nave/pkg/pki"
)

// Certificate is something that a hub proves who it is with.
type Certificate struct {
	Name        string // what it is
	File        string
	Certificate *x509.Certificate // nil for a key alone, which never ends
}

// Certificates are those of the hub with this data directory, whether or not it runs, and its key for service accounts;
// none if there is no hub. Nothing is made or changed.
func Certificates(dataDir string) ([]Certificate, error) {
	f := files{dir: folder(dataDir)}
	var all []Certificate
	for _, c := range []struct{ name, file string }{
		{"CA of the hub's certificate", f.serverLine().File},
		{"its successor", f.serverLine().Next()},
		{"its predecessor", f.serverLine().Old()},
		{"CA of clients", f.clientLine().File},
		{"its successor", f.clientLine().Next()},
		{"its predecessor", f.clientLine().Old()},
		{"hub's certificate", f.serverCert()},
		{"administrator", f.adminCert()},
	} {
		text, err := os.ReadFile(c.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var chain []*x509.Certificate
		if err == nil {
			chain, err = pki.ParseCertificates(text)
		}
		if err == nil && len(chain) == 0 {
			err = errors.New("holds no certificate")
		}
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", c.name, c.file, err)
		}
		all = append(all, Certificate{Name: c.name, File: c.file, Certificate: chain[0]})
	}
	key := Certificate{Name: "key of service accounts", File: f.serviceAccount()}
	switch text, err := os.ReadFile(key.File); {
	case errors.Is(err, fs.ErrNotExist):
		return all, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key.Name, err)
	default:
		if _, err := keyutil.ParsePrivateKeyPEM(text); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", key.Name, key.File, err)
		}
	}
	return append(all, key), nil
}

// Rotation is a step of replacing the hub's CAs, both at once: the one that signs what the hub shows, and the one that
// signs who may come. A hub that runs takes the step by itself within seconds; one that does not, when it starts.
type Rotation string

// The steps. Each can be undone by RollBack until Finish.
const (
	Prepare  Rotation = "prepare"
	Activate Rotation = "activate"
	Finish   Rotation = "finish"
	RollBack Rotation = "rollback"
)

// RotateCA takes a step for every CA of the hub that has not taken it yet, so a step that was interrupted between two CAs
// is completed by calling it again.
func RotateCA(dataDir string, step Rotation, now time.Time) error {
	lines, err := lines(dataDir)
	if err != nil {
		return err
	}
	if step == RollBack {
		if lines, err = furthest(lines, now); err != nil {
			return err
		}
	}
	taken := 0
	for _, line := range lines {
		err := map[Rotation]func(time.Time) error{
			Prepare: line.Prepare, Activate: line.Activate, Finish: line.Finish, RollBack: line.RollBack,
		}[step](now)
		if err == nil {
			taken++
		} else if !errors.Is(err, pki.ErrStage) {
			return err
		}
	}
	if taken > 0 {
		return nil
	}
	stages, err := RotationStages(dataDir, now)
	if err != nil {
		return err
	}
	return fmt.Errorf("certificate authorities of the hub in %s: %s does not follow on %s; nave certificate rotate-ca status says what does", dataDir, step, stages[0])
}

// furthest are the lines of which the rotation has gone on most: all of them, unless a step was interrupted.
func furthest(lines []pki.Line, now time.Time) ([]pki.Line, error) {
	order := []pki.Stage{pki.Settled, pki.Prepared, pki.Activated}
	reached := 0
	var at []int
	for _, line := range lines {
		s, err := line.Load(now)
		if err != nil {
			return nil, err
		}
		at = append(at, slices.Index(order, s.Stage()))
		reached = max(reached, at[len(at)-1])
	}
	var most []pki.Line
	for i, line := range lines {
		if at[i] == reached {
			most = append(most, line)
		}
	}
	return most, nil
}

// RotationStages is where the rotation of each CA stands, in the order of Certificates. They differ only after a step that
// was interrupted.
func RotationStages(dataDir string, now time.Time) ([]pki.Stage, error) {
	lines, err := lines(dataDir)
	if err != nil {
		return nil, err
	}
	var stages []pki.Stage
	for _, line := range lines {
		s, err := line.Load(now)
		if err != nil {
			return nil, err
		}
		stages = append(stages, s.Stage())
	}
	return stages, nil
}

// ClientCAID names the CA that signs certificates of agents now; see pki.ID.
func ClientCAID(dataDir string, now time.Time) (string, error) {
	lines, err := lines(dataDir)
	if err != nil {
		return "", err
	}
	s, err := lines[1].Load(now)
	if err != nil {
		return "", err
	}
	return pki.ID(s.Current.Certificate), nil
}

func lines(dataDir string) ([]pki.Line, error) {
	f := files{dir: folder(dataDir)}
	lines := []pki.Line{f.serverLine(), f.clientLine()}
	for _, line := range lines {
		if _, err := os.Stat(line.File); err != nil {
			return nil, fmt.Errorf("no hub has its data in %s: %w; name its directory with --data-dir", dataDir, err)
		}
	}
	return lines, nil
}
