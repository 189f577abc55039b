package membridge

import (
	"context"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

type agentBeat struct {
	AgentPath
	WaitSec float64 `query:"wait_sec" minimum:"0" maximum:"60" doc:"As in the body, for those who send none"`
	Body    *struct {
		Facts
		WaitSec *float64             `json:"wait_sec,omitempty" required:"false" minimum:"0" maximum:"60" doc:"Hold the answer back for so long, or until there is an order"`
		Held    []string             `json:"held,omitempty" required:"false" nullable:"true" maxItems:"1000" doc:"Orders the agent has and works on: they are not told again, and go on counting as heard of"`
		Drain   *bool                `json:"drain,omitempty" required:"false" doc:"Whether it is drained, as the agent knows it; when that is not so, the answer comes at once"`
		Reports []registry.JobReport `json:"reports,omitempty" required:"false" nullable:"true" maxItems:"1000" doc:"How orders went; to be repeated until an answer came"`
	} `required:"false"`
}

// command is one order to an agent.
type command struct {
	ID          string `json:"id" doc:"The job's id; report it when done"`
	Type        string `json:"type" enum:"sync_push,sync_pull"`
	Project     string `json:"project"`
	CanonicalID string `json:"canonical_id"`
}

type beatAnswer struct {
	Body struct {
		OK          bool               `json:"ok"`
		Name        string             `json:"name"`
		Status      bloom.WorkerStatus `json:"status"`
		IntervalSec float64            `json:"interval_sec"`
		Drain       bool               `json:"drain" doc:"Take no more work while this is true"`
		Commands    []command          `json:"commands" nullable:"false"`
		RuntimeURL  string             `json:"runtime_url"`
		ServerTime  registry.Seconds   `json:"server_time" doc:"Unix seconds"`
	}
}

// beat records a heartbeat and answers what is wanted of the agent, waiting for
// something to be wanted when it was asked to: orders travel on the agent's own
// connection, so that one behind NAT gets them too.
func (s *Server) beat(ctx context.Context, in *agentBeat) (*beatAnswer, error) {
	var (
		patch registry.AgentPatch
		said  registry.JobsSaid
		drain *bool
		wait  = in.WaitSec
		err   error
	)
	if b := in.Body; b != nil {
		if patch, err = b.patch(); err != nil {
			return nil, err
		}
		said, drain = registry.JobsSaid{Reports: cleanReports(b.Reports), Held: b.Held}, b.Drain
		if b.WaitSec != nil {
			wait = *b.WaitSec
		}
	}
	var bell <-chan struct{}
	if wait > 0 {
		if bell = s.waiting.enter(in.Name); bell != nil {
			defer s.waiting.leave(in.Name)
		}
	}
	s.metrics.heartbeats.WithLabelValues("agent").Inc()
	res, err := s.store.Beat(ctx, in.Name, patch, said, proof(ctx))
	if err != nil {
		return nil, err
	}
	orders := fresh(res.Jobs, said.Held)
	told := drain == nil || *drain == res.Agent.Drain
	if len(orders) == 0 && told && bell != nil {
		s.waiting.knows(in.Name, res.Agent.Drain)
		if err := s.rest(ctx, bell, wait, res.Agent); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return s.answer(ctx, res.Agent, orders), nil // to nobody
		}
		if res.Agent, err = s.store.Agent(ctx, in.Name); err != nil {
			return nil, err
		}
		// The name may be another's by now.
		if _, err := proof(ctx).Bind(res.Agent.Token); err != nil {
			return nil, err
		}
		jobs, err := s.store.OpenJobs(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		orders = fresh(jobs, said.Held)
	}
	return s.answer(ctx, res.Agent, orders), nil
}

// rest waits for the bell. An agent that waits is there: its contact is noted
// before it would count as silent, so that it is alive to every replica, and for
// no longer than its connection lasts.
func (s *Server) rest(ctx context.Context, bell <-chan struct{}, seconds float64, a registry.Agent) error {
	end := time.NewTimer(min(maxWait, time.Duration(seconds*float64(time.Second))))
	defer end.Stop()
	due := time.NewTicker(registry.ContactEvery(a))
	defer due.Stop()
	for {
		select {
		case <-due.C:
			if err := s.store.Touch(ctx, a.Name); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		case <-bell:
		case <-end.C:
		case <-ctx.Done():
		case <-s.calm.Done():
		}
		return nil
	}
}

func (s *Server) answer(ctx context.Context, a registry.Agent, orders []command) *beatAnswer {
	out := &beatAnswer{}
	b := &out.Body
	b.OK, b.Name, b.Status, b.IntervalSec = true, a.Name, a.Status, a.IntervalSec
	b.Drain, b.Commands, b.RuntimeURL = a.Drain, orders, s.runtimeFor(ctx)
	b.ServerTime = registry.ToSeconds(s.store.Now())
	return out
}

// fresh are the orders that the agent does not have yet.
func fresh(jobs []registry.Job, held []string) []command {
	orders := []command{}
	for _, j := range jobs {
		if !slices.Contains(held, j.ID) {
			orders = append(orders, command{ID: j.ID, Type: "sync_" + string(j.Kind), Project: j.Project, CanonicalID: j.CanonicalID})
		}
	}
	return orders
}
