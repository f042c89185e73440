package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how long a loop may take on a slow machine before a test gives up on it.
const patience = 30 * time.Second

func TestLoop(t *testing.T) {
	for _, test := range []struct {
		name string
		fn   func(call int64) (time.Duration, error)
	}{
		{"an error is tried again", func(call int64) (time.Duration, error) {
			if call < 3 {
				return 0, errors.New("not yet")
			}
			return 0, nil
		}},
		{"a panic is an error", func(call int64) (time.Duration, error) {
			if call < 3 {
				panic("bad object")
			}
			return 0, nil
		}},
		{"a wish to be called again", func(int64) (time.Duration, error) { return time.Millisecond, nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			logger := logrus.New()
			logger.SetLevel(logrus.PanicLevel)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			var calls atomic.Int64
			loop := New("test", logger, 2, func(context.Context, string) (time.Duration, error) {
				n := calls.Add(1)
				if n == 3 {
					defer cancel()
				}
				return test.fn(n)
			})
			loop.Add("key")
			require.NoError(t, loop.Run(ctx))
			require.GreaterOrEqual(t, calls.Load(), int64(3))
		})
	}
}

func TestMergePatch(t *testing.T) {
	body, err := MergePatch(&metav1.ObjectMeta{Name: "o", UID: "u", ResourceVersion: "7"}, map[string]any{"spec": map[string]any{"a": 1}, "metadata": map[string]any{"labels": map[string]string{"l": "m"}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"u","resourceVersion":"7","labels":{"l":"m"}},"spec":{"a":1}}`, string(body))
}
