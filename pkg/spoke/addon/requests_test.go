package addon

import (
	"context"
	"crypto"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nave/pkg/identity"
)

// patience is how long a slow machine may take before a test gives up on it.
const patience = 30 * time.Second

// asked is a hub that answers when the test says so.
type asked struct {
	*requests
	keys    chan crypto.PublicKey // of each request
	answers chan error
	told    chan string
}

func newAsked(t *testing.T, dir string) *asked {
	a := &asked{keys: make(chan crypto.PublicKey, 1), answers: make(chan error), told: make(chan string, 1)}
	a.requests = &requests{dir: dir, open: map[string]*request{}, answered: func(addon string) { a.told <- addon }}
	a.obtain = func(ctx context.Context, _ wanted, key crypto.Signer) ([]byte, error) {
		a.keys <- key.Public()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-a.answers:
			return []byte("certificate"), err
		}
	}
	t.Cleanup(a.running.Wait)
	return a
}

func receive[T any](t *testing.T, from chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func TestRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	dir := t.TempDir()
	w := wanted{addon: "a", namespace: "n", secret: "s", signer: identity.KubeSigner, subject: identity.Subject{User: "u"}}
	a := newAsked(t, dir)
	t.Cleanup(cancel) // before the wait

	ask := func(a *asked, w wanted) ([]byte, []byte, error) {
		certificate, key, err := a.ask(ctx, w)
		return certificate, key, err
	}
	certificate, _, err := ask(a, w)
	require.NoError(t, err)
	require.Nil(t, certificate, "no answer yet")
	first := receive(t, a.keys)
	_, _, err = ask(a, w)
	require.NoError(t, err, "asking again is no other request")

	// Another run of the agent asks with the same key.
	restarted := newAsked(t, dir)
	_, _, err = ask(restarted, w)
	require.NoError(t, err)
	require.Equal(t, first, receive(t, restarted.keys))
	require.NoError(t, restarted.retain("b", nil), "of another add-on")
	require.Len(t, restarted.open, 1)

	// A refusal is told once, and then it is asked again.
	a.answers <- errors.New("refused")
	require.Equal(t, "a", receive(t, a.told))
	_, _, err = ask(a, w)
	require.ErrorContains(t, err, "refused")
	_, _, err = ask(a, w)
	require.NoError(t, err)
	require.Equal(t, first, receive(t, a.keys))

	// Another subject is another request with another key.
	other := w
	other.subject.User = "v"
	_, _, err = ask(a, other)
	require.NoError(t, err)
	require.NotEqual(t, first, receive(t, a.keys))
	a.answers <- nil
	require.Equal(t, "a", receive(t, a.told))
	certificate, key, err := ask(a, other)
	require.NoError(t, err)
	require.Equal(t, "certificate", string(certificate))
	require.Contains(t, string(key), "PRIVATE KEY")
	require.NoError(t, a.settle(other))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "a key whose certificate is kept is nowhere else")
	require.NoError(t, restarted.retain("a", nil))
	require.Empty(t, restarted.open)
}
