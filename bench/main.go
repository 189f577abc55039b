// Bench measures a running server in ways that only its developers need: what single
// operations cost, what waiting workers cost, and with a full store. `bloom bench` measures
// what everybody does. It is a module of its own, so that nothing of it is in the product.
//
//	go run . fill --data-dir DIR -n 1000000
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/bench"
)

type commands struct {
	Costs costsCmd `cmd:"" help:"Measure the CPU time that single operations take in the server and the database."`
	Polls pollsCmd `cmd:"" help:"Measure many workers that wait for work at the same time."`
	Fill  fillCmd  `cmd:"" help:"Create many tasks, to measure with a full store."`
}

// target is the server to measure.
type target struct {
	URL    string `name:"url" default:"http://127.0.0.1:5000" env:"BLOOM_RUNTIME_URL" help:"Server to measure."`
	APIKey string `name:"api-key" env:"BLOOM_API_KEY" placeholder:"KEY" help:"Its admin key."`
}

func (t target) open() (*client.Client, error) {
	return client.New(t.URL, client.Options{APIKey: t.APIKey})
}

// unlimited opens a server that does not limit the key's requests.
func (t target) unlimited(ctx context.Context) (*client.Client, error) {
	api, err := t.open()
	if err != nil {
		return nil, err
	}
	return api, bench.Unlimited(ctx, api, t.APIKey)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var c commands
	parser, err := kong.New(&c, kong.Name("bench"), kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(out, (*io.Writer)(nil)))
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}
