// Command bloom is the whole of BLOOM Runtime: server, worker, control plane
// and the command line that talks to them.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/process"
)

func main() {
	// The binary also plays the supervising child that ends a run's processes
	// when its worker is killed; it must do so before anything else starts.
	process.MaybeSupervise()
	// Keys may come through the environment, and a task's commands run as the same
	// user. This is for every command, because each may be given a key.
	if err := process.Conceal(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, "bloom: warning:", err)
	}
	os.Exit(cli.Main(os.Args[1:], cli.RealSystem()))
}
