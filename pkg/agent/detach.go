package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"nave/pkg/log"
	"nave/pkg/spoke/klusterlet"
	"nave/pkg/spoke/registration"
)

const (
	// detachedFile says in an agent's data directory that its cluster was detached. Whatever starts the agent again, with the
	// flags that it had, must not join the cluster again.
	detachedFile = "detached"

	// exitDetached is the exit code of an agent that does not run for that reason; joins have those below.
	exitDetached = 10
)

// detachedError is why an agent does not run after its cluster was detached.
type detachedError struct{ file, cluster string }

func (e *detachedError) Error() string {
	return fmt.Sprintf("this cluster was detached from its hub when its Klusterlet was deleted; to join again remove %s, run on the hub: "+
		"nave token create --cluster %s, and start nave agent with --server and that token", e.file, e.cluster)
}

// ExitCode is the exit code of the process that ends with this error.
func (e *detachedError) ExitCode() int { return exitDetached }

func (a *Agent) detachedFile() string { return filepath.Join(a.dir, detachedFile) }

// detached tells whether the cluster was detached earlier.
func (a *Agent) detached() bool {
	_, err := os.Stat(a.detachedFile())
	return err == nil
}

// detach takes the agent off its cluster and forgets its identity. All loops have stopped. That it is detached is written down
// first, so that a crash leaves something that the next start completes.
func (a *Agent) detach(ctx context.Context, k *klusterlet.Loop) error {
	a.config.Log.Info("the Klusterlet was deleted: the cluster is detached from its hub; what was applied on it stays")
	note := fmt.Sprintf("detached %s\n", a.config.Clock.Now().UTC().Format("2006-01-02T15:04:05Z"))
	if err := os.WriteFile(a.detachedFile(), []byte(note), 0o600); err != nil {
		return fmt.Errorf("write down that the cluster is detached: %w", err)
	}
	// Once begun it goes on when the process is told to stop: half a detachment is nobody's wish.
	if err := errors.Join(k.Detach(context.WithoutCancel(ctx)), a.forget()); err != nil {
		return err
	}
	a.config.Log.WithFields(logrus.Fields{log.FieldPath: a.detachedFile(), log.FieldCluster: a.config.Hub.Cluster}).
		Info("the cluster is detached and the agent ends; to join again remove this file and start the agent with a new token")
	return nil
}

// forget removes the keys of the agent and of add-ons.
func (a *Agent) forget() error {
	for _, name := range []string{registration.SecretName, addonKeys} {
		if err := os.RemoveAll(filepath.Join(a.dir, name)); err != nil {
			return fmt.Errorf("remove identity: %w", err)
		}
	}
	return nil
}

// stayAway ends an agent whose cluster was detached, after it has done what a crash in the middle of that left undone.
func (a *Agent) stayAway(ctx context.Context, k *klusterlet.Loop) error {
	going, err := k.Going(ctx)
	if err != nil {
		return err
	}
	if going {
		err = errors.Join(k.Detach(ctx), a.forget())
	}
	return errors.Join(err, &detachedError{a.detachedFile(), a.config.Hub.Cluster})
}
