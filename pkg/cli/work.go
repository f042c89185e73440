package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workload"
)

// workTimeout is how long verbs of works wait for an agent if nobody says how long.
const workTimeout = 2 * time.Minute

// maxWorkSize is more than any store takes, in bytes.
const maxWorkSize = 64 << 20

func (g *global) workCommand() *cobra.Command {
	return group("work", "Works of the hub: what clusters are to run", g.workList(), g.workStatus(), g.workDiff(), g.workApply(), g.workDelete(), g.workRollout())
}

// workAccess is the hub and the clusters whose works a verb is about.
type workAccess struct {
	access
	clusters []string
}

func (w *workAccess) addFlags(flags *pflag.FlagSet) {
	w.access.addFlags(flags)
	flags.StringSliceVar(&w.clusters, "cluster", nil, "managed clusters, c1 or c1,c2")
}

// connect reaches the hub and makes sure that it has the clusters, as far as the user may see that.
func (w *workAccess) connect(ctx context.Context) (*clients, error) {
	if len(w.clusters) == 0 {
		return nil, usageError{errors.New("no cluster is named; say --cluster NAME, nave cluster list shows those that there are")}
	}
	hub, err := w.access.connect()
	if err != nil {
		return nil, err
	}
	slices.Sort(w.clusters)
	w.clusters = slices.Compact(w.clusters)
	for _, name := range w.clusters {
		if _, err := hub.clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, hub.notFound(name)
		}
	}
	return hub, nil
}

// waiting is whether to wait and for how long: --wait, --wait=false, --wait=30s, --timeout 30s.
type waiting struct {
	on      bool
	timeout time.Duration
}

func (w *waiting) addFlags(flags *pflag.FlagSet, on bool, what string) {
	w.on, w.timeout = on, workTimeout
	flags.Var(w, "wait", "wait "+what+"; --wait=30s does so for that long")
	flags.Lookup("wait").NoOptDefVal = "true"
	flags.DurationVar(&w.timeout, "timeout", w.timeout, "how long to wait for agents")
}

// String implements pflag.Value.
func (w *waiting) String() string { return strconv.FormatBool(w.on) }

// Set implements pflag.Value.
func (w *waiting) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil {
		w.on = on
		return nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return errors.New("it is true, false, or how long, as in 30s")
	}
	w.on, w.timeout = true, timeout
	return nil
}

// Type implements pflag.Value.
func (w *waiting) Type() string { return "DURATION" }

// oneWork is the argument of verbs about one set of works.
func oneWork(cmd *cobra.Command, arguments []string) error {
	return exactly(1, "the name of a work")(cmd, arguments)
}

// input is where the objects of a workload come from, and what they are to be called.
type input struct {
	sources   []string
	recursive bool
	name      string
	namespace string
	maxSize   string
	strategy  string
	orphan    bool
	feedback  bool
}

func (i *input) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&i.sources, "filename", "f", nil, "file or directory with YAML or JSON, or - for standard input; may be given several times")
	flags.BoolVarP(&i.recursive, "recursive", "R", false, "read directories with all below them")
	flags.StringVar(&i.name, "name", "", "name of the work; that of the file or directory if empty")
	flags.StringVar(&i.namespace, "namespace-default", "", "namespace of objects that name none")
	flags.StringVar(&i.maxSize, "max-size", "", "how much one work may hold, as in 400Ki; as much as the hub allows if empty")
	flags.StringVar(&i.strategy, "strategy", "", "how agents bring objects in line: Update, CreateOnly, ServerSideApply or ReadOnly; Update if nobody says so")
	flags.BoolVar(&i.orphan, "orphan", false, "leave the objects on the cluster when the work is deleted")
	flags.BoolVar(&i.feedback, "feedback", false, "report the status of Deployments, DaemonSets, Jobs and Pods")
}

// read reads the objects and prepares what puts them into works.
func (i *input) read(g *global) ([]workload.Object, *workload.Applier, error) {
	if len(i.sources) == 0 {
		return nil, nil, usageError{errors.New("nothing is given to apply; say -f FILE, -f DIRECTORY or -f -")}
	}
	if err := workload.CheckStrategy(i.strategy); err != nil {
		return nil, nil, usageError{fmt.Errorf("--strategy: %w", err)}
	}
	maxBytes, err := quantity(i.maxSize)
	if err != nil {
		return nil, nil, err
	}
	reader := workload.Reader{Stdin: g.streams.Stdin, Recursive: i.recursive}
	objects, err := reader.Read(i.sources)
	if err != nil {
		return nil, nil, err
	}
	if i.namespace != "" {
		if err := workload.WithNamespace(objects, i.namespace); err != nil {
			return nil, nil, err
		}
	}
	a := &workload.Applier{MaxBytes: maxBytes, Options: workload.Options{Strategy: workv1.UpdateStrategyType(i.strategy), Orphan: i.orphan, Feedback: i.feedback}}
	a.Set, err = i.set(objects, a.Options)
	return objects, a, err
}

// set is the name of the works. ManifestWorks have names and settings of their own, which flags are not to change.
func (i *input) set(objects []workload.Object, options workload.Options) (string, error) {
	if !slices.ContainsFunc(objects, func(o workload.Object) bool { return !o.IsWork() }) {
		if i.name != "" || options != (workload.Options{}) {
			return "", usageError{errors.New("the input is ManifestWorks only, which are applied as they are; leave out --name, --strategy, --orphan and --feedback")}
		}
		return "", nil
	}
	name := i.name
	if name == "" {
		var err error
		if name, err = workload.NameOf(i.sources); err != nil {
			return "", usageError{err}
		}
	}
	if err := workload.CheckName(name); err != nil {
		return "", usageError{err}
	}
	return name, nil
}

// quantity is a number of bytes as Kubernetes writes it; 0 if nothing is given.
func quantity(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() <= 0 || q.Value() > maxWorkSize {
		return 0, usageError{fmt.Errorf("--max-size %q is no size between 1 and %d bytes, as in 400Ki", text, maxWorkSize)}
	}
	return int(q.Value()), nil
}
