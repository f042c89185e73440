package store

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// patience is how long a step of a test may take on a slow machine before the test gives up on it.
const patience = time.Minute

func open(t *testing.T, dir string) (*Store, *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := New(Config{Dir: dir, Log: logrus.New(), Zap: zap.NewNop()})
	require.NoError(t, err)
	require.NoError(t, s.Start(ctx))
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, DialTimeout: patience, Logger: zap.NewNop()})
	require.NoError(t, err)
	return s, client
}

func TestKeepsWhatWasWritten(t *testing.T) {
	for _, test := range []struct{ name, below string }{
		{"short path", "etcd"},
		{"path too long for a socket", strings.Repeat("long/", 30)},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			dir := filepath.Join(t.TempDir(), test.below)
			s, client := open(t, dir)
			_, err := client.Put(ctx, "key", "value")
			require.NoError(t, err)
			require.NoError(t, client.Close())
			require.NoError(t, s.Stop(ctx))

			s, client = open(t, dir)
			answer, err := client.Get(ctx, "key")
			require.NoError(t, err)
			require.Len(t, answer.Kvs, 1)
			require.Equal(t, "value", string(answer.Kvs[0].Value))
			require.NoError(t, client.Close())
			require.NoError(t, s.Stop(ctx))
		})
	}
}
