package membridge

import (
	"context"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

type heartbeatRequest struct {
	AgentPath
	WaitSec float64 `query:"wait_sec" minimum:"0" maximum:"60" doc:"As in the body, for requests without one"`
	Body    *struct {
		Facts
		WaitSec *float64             `json:"wait_sec,omitempty" required:"false" minimum:"0" maximum:"60" doc:"Delay the response for up to so long, until there is a command"`
		Held    []string             `json:"held,omitempty" required:"false" nullable:"true" maxItems:"1000" doc:"Commands that the agent is working on: they are not sent again, and do not time out"`
		Drain   *bool                `json:"drain,omitempty" required:"false" doc:"Whether the agent is drained, as last reported to it; if that has changed, the response is immediate"`
		Reports []registry.JobReport `json:"reports,omitempty" required:"false" nullable:"true" maxItems:"1000" doc:"Outcomes of commands; repeat them until a response arrives"`
	} `required:"false"`
}

// command is one command for an agent.
type command struct {
	ID          string `json:"id" doc:"The job's id; report it when done"`
	Type        string `json:"type" enum:"sync_push,sync_pull"`
	Project     string `json:"project"`
	CanonicalID string `json:"canonical_id"`
}

type heartbeatResponse struct {
	Body struct {
		OK          bool               `json:"ok"`
		Name        string             `json:"name"`
		Status      bloom.WorkerStatus `json:"status"`
		IntervalSec float64            `json:"interval_sec"`
		Drain       bool               `json:"drain" doc:"Take no new work while this is true"`
		Commands    []command          `json:"commands" nullable:"false"`
		RuntimeURL  string             `json:"runtime_url"`
		ServerTime  registry.Seconds   `json:"server_time" doc:"Unix seconds"`
	}
}

// heartbeat records a heartbeat and returns instructions for the agent. If requested, it waits for
// new ones: commands travel on the agent's own connection, so that they reach agents behind NAT,
// too.
func (s *Server) heartbeat(ctx context.Context, in *heartbeatRequest) (*heartbeatResponse, error) {
	var (
		patch  registry.AgentPatch
		report registry.JobsReport
		drain  *bool
		wait   = in.WaitSec
		err    error
	)
	if b := in.Body; b != nil {
		if patch, err = b.patch(); err != nil {
			return nil, err
		}
		report, drain = registry.JobsReport{Reports: cleanReports(b.Reports), Held: *cleanedList(&b.Held)}, b.Drain
		if b.WaitSec != nil {
			wait = *b.WaitSec
		}
	}
	var wake <-chan struct{}
	if wait > 0 {
		if wake = s.waiting.enter(in.Name); wake != nil {
			defer s.waiting.leave(in.Name)
		}
	}
	res, err := s.store.Heartbeat(ctx, in.Name, patch, report, proof(ctx))
	if err != nil {
		return nil, err
	}
	s.metrics.heartbeats.WithLabelValues("agent").Inc()
	commands := newCommands(res.Jobs, report.Held)
	upToDate := drain == nil || *drain == res.Agent.Drain
	if len(commands) == 0 && upToDate && wake != nil {
		s.waiting.knows(in.Name, res.Agent.Drain)
		if err := s.waitForCommands(ctx, wake, wait, res.Agent); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return s.respond(ctx, res.Agent, commands), nil // the caller is gone
		}
		if res.Agent, err = s.store.Agent(ctx, in.Name); err != nil {
			return nil, err
		}
		// The name may have been bound to another token in the meantime.
		if _, err := proof(ctx).Bind(res.Agent.Token); err != nil {
			return nil, err
		}
		jobs, err := s.store.OpenJobs(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		commands = newCommands(jobs, report.Held)
	}
	return s.respond(ctx, res.Agent, commands), nil
}

// waitForCommands waits until wake is closed. It records the agent's contact before the agent would
// count as silent, so that it is alive to every replica, and for no longer than its connection
// lasts.
func (s *Server) waitForCommands(ctx context.Context, wake <-chan struct{}, seconds float64, a registry.Agent) error {
	end := time.NewTimer(min(maxWait, time.Duration(seconds*float64(time.Second))))
	defer end.Stop()
	due := time.NewTicker(registry.TouchInterval(a))
	defer due.Stop()
	for {
		select {
		case <-due.C:
			if err := s.store.Touch(ctx, a.Name); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		case <-wake:
		case <-end.C:
		case <-ctx.Done():
		case <-s.quiesced.Done():
		}
		return nil
	}
}

func (s *Server) respond(ctx context.Context, a registry.Agent, commands []command) *heartbeatResponse {
	out := &heartbeatResponse{}
	b := &out.Body
	b.OK, b.Name, b.Status, b.IntervalSec = true, a.Name, a.Status, a.IntervalSec
	b.Drain, b.Commands, b.RuntimeURL = a.Drain, commands, s.runtimeFor(ctx)
	b.ServerTime = registry.ToSeconds(s.store.Now())
	return out
}

// newCommands returns the commands that the agent does not have yet.
func newCommands(jobs []registry.Job, held []string) []command {
	commands := []command{}
	for _, j := range jobs {
		if !slices.Contains(held, j.ID) {
			commands = append(commands, command{ID: j.ID, Type: "sync_" + string(j.Kind), Project: j.Project, CanonicalID: j.CanonicalID})
		}
	}
	return commands
}
