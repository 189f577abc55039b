package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/process"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/storable"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	process.MaybeSupervise()
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(os.Args[1:], cli.RealSystem()))
	}
	goleak.VerifyTestMain(m)
}

// outcome is the result of one command.
type outcome struct {
	code     int
	out, err string
}

// person runs commands.
type person struct {
	t        testing.TB
	env      map[string]string
	in       string
	typed    io.Reader // replaces in
	out      io.Writer // replaces the output of an outcome
	terminal bool
	columns  int
	piped    bool // standard output is a pipe, also on a terminal
	signals  chan os.Signal
	stderr   func([]byte) // sees the output as it is written
}

func newPerson(t testing.TB, rt *runtimetest.Runtime) *person {
	p := &person{t: t, signals: make(chan os.Signal, 3), env: map[string]string{"HOME": t.TempDir()}}
	if rt != nil {
		p.env["BLOOM_RUNTIME_URL"], p.env["BLOOM_API_KEY"] = rt.URL, runtimetest.AdminKey
	}
	return p
}

type watched struct {
	bytes.Buffer
	see func([]byte)
}

func (w *watched) Write(b []byte) (int, error) {
	if w.see != nil {
		w.see(b)
	}
	return w.Buffer.Write(b)
}

func (p *person) run(args ...string) outcome {
	p.t.Helper()
	var out bytes.Buffer
	errs := watched{see: p.stderr}
	in, to := p.typed, p.out
	if in == nil {
		in = strings.NewReader(p.in)
	}
	if to == nil {
		to = &out
	}
	code := cli.Main(args, cli.System{
		In: in, Out: to, Err: &errs, Hostname: "host", Signals: p.signals,
		OutTerminal: p.terminal && !p.piped, ErrTerminal: p.terminal, InTerminal: p.terminal, Columns: p.columns,
		Env: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
	})
	return outcome{code, out.String(), errs.String()}
}

// must runs a command that must succeed.
func (p *person) must(args ...string) string {
	p.t.Helper()
	got := p.run(args...)
	if got.code != cli.ExitOK {
		p.t.Fatalf("bloom %s: exit code %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// apiOf returns the SDK for the same runtime.
func apiOf(t testing.TB, rt *runtimetest.Runtime) *client.Client {
	t.Helper()
	c, err := client.New(rt.URL, client.Options{APIKey: runtimetest.AdminKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// employ runs a test worker that answers every task with reply, after sending the events.
func employ(t testing.TB, rt *runtimetest.Runtime, events []bloom.WorkerEvent, reply bloom.Completion) {
	t.Helper()
	api := apiOf(t, rt)
	ctx, stop := context.WithCancel(context.Background())
	if _, err := api.RegisterWorker(ctx, bloom.WorkerSpec{Name: "w1", InstanceID: "i1",
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 4}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			got, err := api.Claim(ctx, "w1", client.Claim{InstanceID: "i1", Max: 1, Wait: 10 * time.Second})
			if err != nil {
				continue
			}
			for _, l := range got.Leases {
				reply.LeaseID = l.Lease.ID
				if _, err := api.Heartbeat(ctx, l.Task.ID, l.Lease.ID, nil); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if err := api.AppendEvents(ctx, l.Task.ID, l.Lease.ID, events); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if _, err := api.Complete(ctx, l.Task.ID, reply); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

func event(seq int64, typ string, data any) bloom.WorkerEvent {
	return bloom.WorkerEvent{Seq: seq, Type: typ, At: 1, Data: storable.MustJSON(data)}
}

func text(s string) *string { return &s }

func decode[T any](t testing.TB, raw string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, raw)
	}
	return v
}

// golden compares with a file under testdata; -update writes it.
func golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test -update rewrites it:\n%s", path, diff)
	}
}
