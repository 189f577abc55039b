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
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Runner runs one task to its end. It is called by several goroutines at once,
// one a task.
//
// ctx ends when the run must stop; context.Cause then says why:
// attempt.ErrCancelled (the task was cancelled), attempt.ErrLeaseGone (the worker
// lost the lease; at most a success is still reported) or attempt.ErrDraining (the
// worker stops). The runner must then return soon and leave nothing running.
//
// emit adds an event to the task's stream: a type and data that encodes to
// JSON. It never blocks and may be called by any goroutine. It does nothing
// after Run has returned. An event of the type bloom.EventUsage shows that the
// model's provider has accepted the worker's credentials.
type Runner interface {
	Run(ctx context.Context, task bloom.Task, emit func(typ string, data any)) attempt.Run
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
	// Client calls the runtime. The worker replaces its retry policy.
	Client *client.Client
	// Name is the worker's id at the runtime. Only one live process may use it.
	Name string
	// Capabilities are sent with each registration; MaxConcurrency 0 means 1.
	Capabilities bloom.Capabilities
	// StateDir belongs to this worker alone. New creates it if it does not exist.
	StateDir string
	Runner   Runner
	// Ready returns why no task can be run at present, nil when one can. While it
	// returns an error, the worker claims nothing and reports itself unable to run
	// tasks, so that they go to other workers instead of failing here. It is called
	// before every claim and must be quick unless something changed. Nil means
	// always ready.
	Ready func(context.Context) error

	// Forget starts to delete this machine's data of a context. It is called before
	// new work begins and must be quick. The returned function does the rest; it is
	// called in a goroutine whose context ends with the worker. Nil means that this
	// worker keeps no data of contexts.
	Forget func(contextID string) (finish func(context.Context) error)

	// Accepted is called when the server has accepted the outcome of a run, also of one
	// by an earlier process. If it fails, the outcome is delivered again, and Accepted is
	// called again. It is not called for the outcomes of runs that were interrupted. It may
	// be nil.
	Accepted func(contextID, leaseID string) error

	// OnMembridge is called with the control plane's URL after each registration in
	// which the runtime returned one. It must not block. It may be nil.
	OnMembridge func(url string)

	// OnStopped is called after an orderly stop, before the worker reports itself
	// offline. Whatever else reports this worker to the runtime must stop in it,
	// or the worker would appear online again. It may be nil.
	OnStopped func()

	// About is shown with the worker: version, system, addresses. The worker sets
	// its Name, Capabilities, Status and InstanceID, and Agents if the function below
	// is not nil.
	About bloom.WorkerSpec

	// Agents returns the names of the agents in the files of this machine, which may
	// change. It may be nil.
	Agents func(context.Context) []string

	// Setup returns how claude runs on this machine. It is called with Agents, and may be nil.
	Setup func(context.Context) bloom.WorkerSetup

	// Tail has the last log lines, which the worker reports to the runtime. Nil
	// means that it reports none.
	Tail *Tail

	// LeaseTTL is requested with each claim, in whole seconds; 0 means
	// bloom.DefaultLeaseTTLSec.
	LeaseTTL time.Duration
	// PollWait is how long a claim may wait for work, in whole seconds up to 60;
	// 0 means DefaultPollWait.
	PollWait time.Duration
	// Grace is how long running tasks may continue after Stop; 0 means
	// DefaultGrace, a negative value means none.
	Grace time.Duration
	// StopWait is how long to wait for a runner whose context has ended; 0 means
	// DefaultStopWait.
	StopWait time.Duration
	// DeliverWait is how long the last deliveries may take before the process ends;
	// 0 means DefaultDeliverWait. The next start delivers the others.
	DeliverWait time.Duration
	// FlushWait is how long a completion waits for its events to be sent; 0 means
	// DefaultFlushWait.
	FlushWait time.Duration

	Clock  timing.Clock // nil means the system clock
	Logger *slog.Logger // nil means no log
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
		return c, fmt.Errorf("worker: the lease TTL must be %d to %d seconds", bloom.MinLeaseTTLSec, bloom.MaxLeaseTTLSec)
	}
	c.Capabilities.MaxConcurrency = cmp.Or(c.Capabilities.MaxConcurrency, 1)
	if n := c.Capabilities.MaxConcurrency; n < 1 || n > bloom.MaxConcurrency {
		return c, fmt.Errorf("worker: the maximum concurrency must be 1 to %d", bloom.MaxConcurrency)
	}
	c.PollWait = min(cmp.Or(c.PollWait, DefaultPollWait), time.Minute)
	c.Grace = max(0, cmp.Or(c.Grace, DefaultGrace))
	c.StopWait = cmp.Or(c.StopWait, DefaultStopWait)
	c.DeliverWait = cmp.Or(c.DeliverWait, DefaultDeliverWait)
	c.FlushWait = cmp.Or(c.FlushWait, DefaultFlushWait)
	if c.Clock == nil {
		c.Clock = timing.System{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Client = c.Client.WithRetry(client.NoRetry)
	return c, nil
}
