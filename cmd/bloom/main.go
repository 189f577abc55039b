// Command bloom is the whole of BLOOM Runtime: server, worker, control plane
// and the command line that talks to them.
package main

import (
	"os"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/process"
)

func main() {
	// The binary also plays the supervising child that ends a run's processes
	// when its worker is killed; it must do so before anything else starts.
	process.MaybeSupervise()
	os.Exit(cli.Main(os.Args[1:], cli.RealSystem()))
}
