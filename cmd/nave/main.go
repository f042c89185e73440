// Command nave is Open Cluster Management in one binary: the hub, the agent, a lab, and the tools for them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"nave/pkg/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once, whatever the first one is still waiting for.
	context.AfterFunc(ctx, stop)
	streams := cli.Streams{Out: os.Stdout, Err: os.Stderr, Stdin: os.Stdin, Lookup: os.LookupEnv}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		streams.In = os.Stdin
	}
	return cli.Run(ctx, os.Args[1:], streams)
}
