package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Stage is where the rotation of a CA stands.
type Stage string

const (
	// Settled is a CA without a rotation: it signs, and nothing else is trusted.
	Settled Stage = "settled"
	// Prepared is a CA whose successor is trusted already and does not sign yet.
	Prepared Stage = "prepared"
	// Activated is a successor that signs, while the old CA is still trusted.
	Activated Stage = "activated"
)

// Line is a CA and those that come after it, in files of one folder: NAME.pem signs, NAME-next.pem will, NAME-old.pem did.
// Every step changes one name at a time, so that whatever a crash leaves says which step was under way; Load completes it.
type Line struct {
	File       string // NAME.pem
	CommonName string // of the first CA; those after it have the time of their making behind it
}

// Succession is what a line's files hold.
type Succession struct {
	Current   *Authority
	Next, Old *Authority // nil unless there is a rotation; never both
}

// Stage is where the rotation stands.
func (s Succession) Stage() Stage {
	switch {
	case s.Next != nil:
		return Prepared
	case s.Old != nil:
		return Activated
	}
	return Settled
}

// Trusted are the certificates of all CAs of the line that are to be trusted now, the one that signs first.
func (s Succession) Trusted() []*x509.Certificate {
	all := []*x509.Certificate{s.Current.Certificate}
	for _, a := range []*Authority{s.Next, s.Old} {
		if a != nil {
			all = append(all, a.Certificate)
		}
	}
	return all
}

// Chain is what a server sends behind its certificate, up to the root that its oldest clients know. While there is an old
// CA, the new one comes as signed by the old: a client that was away during the rotation then trusts it as well.
func (s Succession) Chain(now time.Time) ([]*x509.Certificate, error) {
	if s.Old == nil {
		return []*x509.Certificate{s.Current.Certificate}, nil
	}
	own, old := s.Current.Certificate, s.Old.Certificate
	ends := own.NotAfter
	if old.NotAfter.Before(ends) {
		ends = old.NotAfter
	}
	crossed, err := s.Old.Sign(&x509.Certificate{
		Subject: own.Subject, SubjectKeyId: own.SubjectKeyId, NotBefore: now.Add(-backdate), NotAfter: ends,
		KeyUsage: own.KeyUsage, BasicConstraintsValid: true, IsCA: true,
	}, own.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("sign %s by the CA before it: %w", own.Subject.CommonName, err)
	}
	return []*x509.Certificate{crossed, old}, nil
}

// ErrStage is what a step returns that does not fit where the rotation stands.
var ErrStage = errors.New("the rotation is not where this step begins")

// Load reads the line, makes its first CA if there is none, and completes a step that a crash interrupted.
func (l Line) Load(now time.Time) (Succession, error) {
	var s Succession
	err := l.locked(func() error {
		var err error
		s, err = l.load(now)
		return err
	})
	return s, err
}

func (l Line) load(now time.Time) (Succession, error) {
	if err := l.settle(); err != nil {
		return Succession{}, err
	}
	var s Succession
	var err error
	if s.Current, err = LoadAuthority(l.File, l.CommonName, now); err != nil {
		return s, err
	}
	for name, to := range map[string]**Authority{l.Next(): &s.Next, l.Old(): &s.Old} {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			*to, err = parsePair(text)
		}
		if err != nil {
			return s, fmt.Errorf("certificate authority %s: %w; restore the file from a backup", name, err)
		}
	}
	return s, nil
}

// Prepare makes the successor. From then on it is trusted.
func (l Line) Prepare(now time.Time) error {
	return l.step(now, Settled, func(Succession) error {
		next, err := newAuthority(fmt.Sprintf("%s@%d", l.CommonName, now.Unix()), now)
		if err != nil {
			return fmt.Errorf("make certificate authority %s: %w", l.CommonName, err)
		}
		text, err := encodePair(next.Certificate, next.Key)
		if err != nil {
			return err
		}
		return WriteFile(l.Next(), text, 0o600)
	})
}

// Activate lets the successor sign. The old CA stays trusted.
func (l Line) Activate(now time.Time) error {
	return l.step(now, Prepared, func(Succession) error { return l.copyThenSettle(l.Old()) })
}

// RollBack goes one stage back: from Activated the old CA signs again, and from Prepared the successor is forgotten.
func (l Line) RollBack(now time.Time) error {
	return l.locked(func() error {
		s, err := l.load(now)
		switch {
		case err != nil:
			return err
		case s.Stage() == Activated:
			return l.copyThenSettle(l.Next())
		case s.Stage() == Prepared:
			return remove(l.Next())
		}
		return fmt.Errorf("%s: %w: nothing is being rotated", l.File, ErrStage)
	})
}

// Finish forgets the old CA. What it signed is worth nothing then.
func (l Line) Finish(now time.Time) error {
	return l.step(now, Activated, func(Succession) error { return remove(l.Old()) })
}

func (l Line) step(now time.Time, from Stage, do func(Succession) error) error {
	return l.locked(func() error {
		s, err := l.load(now)
		if err != nil {
			return err
		}
		if s.Stage() != from {
			return fmt.Errorf("%s: %w: it is %s, not %s", l.File, ErrStage, s.Stage(), from)
		}
		return do(s)
	})
}

// Next is the file of the successor, which is there while the rotation is prepared.
func (l Line) Next() string { return strings.TrimSuffix(l.File, ".pem") + "-next.pem" }

// Old is the file of the predecessor, which is there while the rotation is activated.
func (l Line) Old() string { return strings.TrimSuffix(l.File, ".pem") + "-old.pem" }

// copyThenSettle is the step between prepared and activated, in either direction: a copy of what signs now is kept under
// the name that it will have, and then what is to sign takes its place.
func (l Line) copyThenSettle(name string) error {
	text, err := os.ReadFile(l.File)
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	if err := WriteFile(name, text, 0o600); err != nil {
		return err
	}
	return l.settle()
}

// settle completes a step of which only the copy was made: whichever of the two others is no copy of the CA that signs is
// the one that is to sign.
func (l Line) settle() error {
	current, err1 := os.ReadFile(l.File)
	next, err2 := os.ReadFile(l.Next())
	old, err3 := os.ReadFile(l.Old())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil // one is missing: no step is under way; load says what is wrong with the others
	}
	from := l.Next()
	if bytes.Equal(current, next) {
		from = l.Old()
	} else if !bytes.Equal(current, old) {
		return fmt.Errorf("certificate authorities %s, %s and %s are three different ones; restore the folder from a backup", l.File, l.Next(), l.Old())
	}
	if err := os.Rename(from, l.File); err != nil {
		return fmt.Errorf("complete the rotation of %s: %w", l.File, err)
	}
	return syncFolder(filepath.Dir(l.File))
}

func remove(file string) error {
	if err := os.Remove(file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

// locked runs do while nobody else, in this process or another, changes the lines of the folder.
func (l Line) locked(do func() error) error {
	if err := os.MkdirAll(filepath.Dir(l.File), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(l.File), ".rotation.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock certificate authorities: %w", err)
	}
	defer lock.Close() // and gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return do()
}

// ID names a CA by its key, in 16 characters that fit wherever a name does.
func ID(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:8])
}
