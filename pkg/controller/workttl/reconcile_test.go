package workttl

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	typedworkv1 "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/live"
	"nave/pkg/settings"
)

// deletions is a client that can only delete works.
type deletions struct {
	workclient.Interface
	typedworkv1.WorkV1Interface
	typedworkv1.ManifestWorkInterface
	fails error
	seen  []metav1.Preconditions
}

func (d *deletions) WorkV1() typedworkv1.WorkV1Interface                    { return d }
func (d *deletions) ManifestWorks(string) typedworkv1.ManifestWorkInterface { return d }

func (d *deletions) Delete(_ context.Context, _ string, options metav1.DeleteOptions) error {
	d.seen = append(d.seen, *options.Preconditions)
	return d.fails
}

func TestReconcile(t *testing.T) {
	works := schema.GroupResource{Resource: "manifestworks"}
	for _, test := range []struct {
		name    string
		after   time.Duration // of the end
		off     bool
		fails   error
		again   time.Duration
		deletes bool
		wrong   string
	}{
		{name: "the end has come", deletes: true},
		{name: "long ago", after: time.Hour, deletes: true},
		{name: "not yet", after: -time.Second, again: time.Second},
		{name: "the gate is off", off: true},
		{name: "gone meanwhile", fails: apierrors.NewNotFound(works, "w"), deletes: true},
		{name: "changed meanwhile", fails: apierrors.NewConflict(works, "w", errors.New("changed")), deletes: true},
		{name: "refused", fails: apierrors.NewForbidden(works, "w", errors.New("no")), deletes: true, wrong: "delete completed work c1/w"},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := logrus.New()
			log.SetOutput(io.Discard)
			set := settings.Hub{}
			if test.off {
				set.Features = settings.Features{feature.CleanUpCompletedManifestWork: false}
			}
			client := &deletions{fails: test.fails}
			informers := workinformers.NewSharedInformerFactory(client, 0)
			a, err := New(Config{
				Log: log, Works: client, WorkInformers: informers, Settings: live.New(set),
				Clock: clocktesting.NewFakePassiveClock(completed.Add(time.Minute + test.after)),
			})
			require.NoError(t, err)
			w := work(func(w *workv1.ManifestWork) { w.UID, w.ResourceVersion = "u", "7" })
			require.NoError(t, informers.Work().V1().ManifestWorks().Informer().GetStore().Add(w))

			again, err := a.reconcile(t.Context(), "c1/w")
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, test.again, again)
			if !test.deletes {
				require.Empty(t, client.seen)
				return
			}
			require.Equal(t, []metav1.Preconditions{{UID: &w.UID, ResourceVersion: &w.ResourceVersion}}, client.seen)

			again, err = a.reconcile(t.Context(), "c1/other")
			require.NoError(t, err, "a work that is gone")
			require.Zero(t, again)
		})
	}
}
