package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// Runner runs one task to its end. It is called by several goroutines at once,
// one a task.
//
// ctx ends when the run must stop; context.Cause then says why:
// bloom.ErrCancelled (the task was cancelled), bloom.ErrLeaseGone (the lease is
// not ours any more, the answer is discarded) or bloom.ErrDraining (the worker
// stops). The runner must come back soon after, with nothing of it left running.
//
// emit adds an event to the task's stream: a type and data that encodes to
// JSON. It never blocks, may be called by any goroutine, and is ignored after
// Run has returned.
type Runner interface {
	Run(ctx context.Context, task bloom.Task, emit func(typ string, data any)) bloom.Run
}

// Defaults of a Config.
const (
	DefaultPollWait    = 20 * time.Second
	DefaultGrace       = 30 * time.Second
	DefaultStopWait    = 30 * time.Second
	DefaultDeliverWait = 10 * time.Second
	DefaultFlushWait   = 5 * time.Second
)

// Config is what a Worker needs. Client, Name, StateDir and Runner are required.
type Config struct {
	// Client speaks to the runtime. The worker repeats calls by rules of its own.
	Client *client.Client
	// Name is the worker's id on the runtime; one living process has it.
	Name string
	// Capabilities are told at registration; MaxConcurrency 0 means 1.
	Capabilities bloom.Capabilities
	// StateDir is a folder of this worker alone. It is made when missing.
	StateDir string
	Runner   Runner
	// Ready says why no task can be run at present, nil when one can. While it
	// does, the worker takes no tasks and tells the runtime that it runs none, so
	// that they wait or go to others instead of failing here. It is asked before
	// every claim and must be quick, but for when something changed. A nil Ready is
	// always ready.
	Ready func(context.Context) error

	// Forget begins to drop what is kept of a context that was forgotten, on this
	// machine. It is called before new work is begun and must be quick; finish, which
	// does the rest, is called in a goroutine whose context ends with the worker. Nil:
	// this worker keeps nothing.
	Forget func(contextID string) (finish func(context.Context) error)

	// OnMembridge is told with each registration where the control plane is, when
	// the runtime knows. It must not block. Nil: nobody wants to know.
	OnMembridge func(url string)

	// Leaving is called when an orderly stop has ended everything, before the
	// runtime is told that the worker is gone: whoever else tells the runtime of
	// this worker should hear of it first. Nil: nobody does.
	Leaving func()

	// About is shown with the worker: version, system, addresses. Name,
	// Capabilities, Status and InstanceID of it are set by the worker.
	About bloom.WorkerSpec

	// Tail has the log's last lines, which are reported to the runtime. Nil: none are.
	Tail *Tail

	// LeaseTTL is asked for with each claim, whole seconds; 0 means
	// bloom.DefaultLeaseTTLSec.
	LeaseTTL time.Duration
	// PollWait is how long a claim may wait for work, whole seconds up to 60;
	// 0 means DefaultPollWait.
	PollWait time.Duration
	// Grace is how long running tasks may go on after the order to stop; 0
	// means DefaultGrace, negative none.
	Grace time.Duration
	// StopWait bounds the wait for a runner that was told to stop; 0 means
	// DefaultStopWait.
	StopWait time.Duration
	// DeliverWait bounds the last tries to deliver before the process ends; 0
	// means DefaultDeliverWait. What is left is delivered by the next life.
	DeliverWait time.Duration
	// FlushWait bounds how long a completion waits for its events to be sent;
	// 0 means DefaultFlushWait.
	FlushWait time.Duration

	Clock  bloom.Clock  // nil: the machine's
	Logger *slog.Logger // nil: says nothing
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Client == nil:
		return c, errors.New("worker: a client is required")
	case c.Name == "":
		return c, errors.New("worker: a name is required")
	case c.StateDir == "":
		return c, errors.New("worker: a state folder is required")
	case c.Runner == nil:
		return c, errors.New("worker: a runner is required")
	}
	c.LeaseTTL = cmp.Or(c.LeaseTTL, bloom.DefaultLeaseTTLSec*time.Second)
	if s := c.LeaseTTL / time.Second; s < bloom.MinLeaseTTLSec || s > bloom.MaxLeaseTTLSec {
		return c, fmt.Errorf("worker: the lease's TTL must be %d to %d seconds", bloom.MinLeaseTTLSec, bloom.MaxLeaseTTLSec)
	}
	c.Capabilities.MaxConcurrency = cmp.Or(c.Capabilities.MaxConcurrency, 1)
	if n := c.Capabilities.MaxConcurrency; n < 1 || n > bloom.MaxConcurrency {
		return c, fmt.Errorf("worker: it can run 1 to %d tasks at once", bloom.MaxConcurrency)
	}
	c.PollWait = min(cmp.Or(c.PollWait, DefaultPollWait), time.Minute)
	c.Grace = max(0, cmp.Or(c.Grace, DefaultGrace))
	c.StopWait = cmp.Or(c.StopWait, DefaultStopWait)
	c.DeliverWait = cmp.Or(c.DeliverWait, DefaultDeliverWait)
	c.FlushWait = cmp.Or(c.FlushWait, DefaultFlushWait)
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Client = c.Client.WithRetry(client.NoRetry)
	return c, nil
}
