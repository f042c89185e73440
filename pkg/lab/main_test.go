package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// lastWords is a variable that makes a part say something and die.
const lastWords = "LAB_TEST_LAST_WORDS"

// TestMain lets the test binary be the binary of a lab: started with a lab's hidden verb, it is that part.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "lab-") {
		if err := runPart(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runPart(verb string, args []string) error {
	if words := os.Getenv(lastWords); words != "" {
		return errors.New(words)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	flags := pflag.NewFlagSet(verb, pflag.ContinueOnError)
	name := flags.String("cluster", "", "")
	dir := flags.String("data-dir", "", "")
	listen := flags.String("listen", "", "")
	nodes := flags.Int("nodes", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if verb == VerbKubeAPIServer {
		return RunKubeAPIServer(ctx, KubeAPIServerConfig{Cluster: *name, DataDir: *dir, Listen: *listen, Log: logrus.New()})
	}
	return RunKubeControllerManager(ctx, KubeControllerManagerConfig{Cluster: *name, DataDir: *dir, Nodes: *nodes, Log: logrus.New()})
}
