package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newLine(t *testing.T) Line {
	return Line{File: filepath.Join(t.TempDir(), "pki", "server-ca.pem"), CommonName: "test-ca"}
}

func load(t *testing.T, l Line) Succession {
	t.Helper()
	s, err := l.Load(now)
	require.NoError(t, err)
	return s
}

// TestRotation goes through all stages, and looks at each with the eyes of clients that know the old CA, the new one, or
// what was published at that stage.
func TestRotation(t *testing.T) {
	l := newLine(t)
	file := filepath.Join(t.TempDir(), "server.pem")
	leaf := Leaf{CommonName: "hub", Hosts: []string{"hub.example"}}
	settled := load(t, l)
	old := settled.Current.Certificate
	var fresh *x509.Certificate
	for _, test := range []struct {
		name                    string
		step                    func(time.Time) error
		stage                   Stage
		knowsOld, knowsNew      bool // who can check the server
		signedByNew, trustsBoth bool
	}{
		{"first", nil, Settled, true, false, false, false},
		{"prepared", l.Prepare, Prepared, true, false, false, true},
		{"rolled back", l.RollBack, Settled, true, false, false, false},
		{"prepared again", l.Prepare, Prepared, true, false, false, true},
		{"activated", l.Activate, Activated, true, true, true, true},
		{"rolled back from there", l.RollBack, Prepared, true, false, false, true},
		{"activated again", l.Activate, Activated, true, true, true, true},
		{"finished", l.Finish, Settled, false, true, true, false},
	} {
		require.True(t, t.Run(test.name, func(t *testing.T) {
			if test.step != nil {
				require.NoError(t, test.step(now))
			}
			s := load(t, l)
			require.Equal(t, test.stage, s.Stage())
			if s.Next != nil {
				fresh = s.Next.Certificate
			}
			if test.trustsBoth {
				require.ElementsMatch(t, [][]byte{old.Raw, fresh.Raw}, raw(s.Trusted()))
			}
			_, err := s.LoadLeaf(file, leaf, now)
			require.NoError(t, err)
			chain := readChain(t, file)
			require.Equal(t, test.knowsOld, verifies(chain, old), "who knows the old CA")
			require.Equal(t, test.signedByNew, fresh != nil && chain[0].CheckSignatureFrom(fresh) == nil)
			if fresh != nil {
				require.Equal(t, test.knowsNew, verifies(chain, fresh), "who knows the new CA")
			}
			for _, trusted := range s.Trusted() {
				require.True(t, trusted == s.Trusted()[0] || test.stage != Settled)
			}
			require.True(t, verifies(chain, s.Trusted()...), "who knows what is published")
		}))
	}
}

func TestStepsOutOfTurn(t *testing.T) {
	l := newLine(t)
	steps := map[string]func(time.Time) error{"prepare": l.Prepare, "activate": l.Activate, "finish": l.Finish, "roll back": l.RollBack}
	for _, test := range []struct {
		stage  Stage
		enter  func(time.Time) error
		refuse []string
	}{
		{Settled, func(now time.Time) error { _, err := l.Load(now); return err }, []string{"activate", "finish", "roll back"}},
		{Prepared, l.Prepare, []string{"prepare", "finish"}},
		{Activated, l.Activate, []string{"prepare", "activate"}},
	} {
		require.NoError(t, test.enter(now))
		before := raw(load(t, l).Trusted())
		for _, name := range test.refuse {
			require.ErrorIs(t, steps[name](now), ErrStage, "%s while %s", name, test.stage)
		}
		require.Equal(t, before, raw(load(t, l).Trusted()), "a refused step changes nothing")
	}
}

// TestCrashBetweenWrites leaves what a crash in the middle of a step leaves, and loads it.
func TestCrashBetweenWrites(t *testing.T) {
	for _, test := range []struct {
		name  string
		until []string // steps before the one that is interrupted
		copy  string   // the name under which the interrupted step had kept what signs
		want  Stage
	}{
		{"activate", []string{"prepare"}, "-old.pem", Activated},
		{"roll back", []string{"prepare", "activate"}, "-next.pem", Prepared},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLine(t)
			load(t, l)
			for _, step := range test.until {
				require.NoError(t, map[string]func(time.Time) error{"prepare": l.Prepare, "activate": l.Activate}[step](now))
			}
			before := load(t, l)
			text, err := os.ReadFile(l.File)
			require.NoError(t, err)
			name := filepath.Join(filepath.Dir(l.File), "server-ca"+test.copy)
			require.NoError(t, os.WriteFile(name, text, 0o600))
			after := load(t, l)
			require.Equal(t, test.want, after.Stage())
			require.ElementsMatch(t, raw(before.Trusted()), raw(after.Trusted()), "none is lost")
			require.NotEqual(t, before.Current.Certificate.Raw, after.Current.Certificate.Raw, "the step is done")
		})
	}
	t.Run("three different ones", func(t *testing.T) {
		l := newLine(t)
		load(t, l)
		require.NoError(t, l.Prepare(now))
		stranger, err := newAuthority("stranger", now)
		require.NoError(t, err)
		text, err := encodePair(stranger.Certificate, stranger.Key)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(l.Old(), text, 0o600))
		_, err = l.Load(now)
		require.ErrorContains(t, err, "restore the folder from a backup")
	})
}

func raw(certificates []*x509.Certificate) [][]byte {
	var all [][]byte
	for _, c := range certificates {
		all = append(all, c.Raw)
	}
	return all
}

func readChain(t *testing.T, file string) []*x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	chain, err := ParseCertificates(text)
	require.NoError(t, err)
	return chain
}

func verifies(chain []*x509.Certificate, roots ...*x509.Certificate) bool {
	known, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range roots {
		known.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: known, Intermediates: between, DNSName: "hub.example", CurrentTime: now})
	return err == nil
}
