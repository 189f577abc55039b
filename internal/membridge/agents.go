package membridge

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

// maxWait bounds how long a heartbeat may wait for commands.
const maxWait = 60 * time.Second

func (s *Server) agentRoutes() {
	created := func(op *huma.Operation) { op.DefaultStatus = http.StatusCreated }
	operation(s, http.MethodGet, "/agents", "All agents", s.listAgents)
	operation(s, http.MethodPost, "/agents", "Register or update an agent", s.registerAgent, created)
	// huma describes only one success.
	answers := s.api.OpenAPI().Paths["/agents"].Post.Responses
	known := *answers["201"]
	answers["201"].Description, known.Description = "Registered", "Updated"
	answers["200"] = &known
	operation(s, http.MethodPost, "/agents/{name}/heartbeat", "Report liveness and load; returns instructions for the agent", s.heartbeat, liftDeadlines)
	operation(s, http.MethodPost, "/agents/{name}/drain", "Drain an agent, so that it takes no more work, or undrain it", s.drain)
	operation(s, http.MethodDelete, "/agents/{name}", "Delete an agent", s.deleteAgent)
}

// Facts are an agent's properties in registrations and heartbeats. Absent ones keep their value.
type Facts struct {
	URL           *string             `json:"url,omitempty" required:"false" nullable:"true" maxLength:"2048" doc:"http or https; where the control plane may call the agent"`
	Status        *bloom.WorkerStatus `json:"status,omitempty" required:"false" enum:"online,offline,syncing,error,unknown"`
	IntervalSec   *float64            `json:"interval_sec,omitempty" required:"false" minimum:"0.1" maximum:"3600" doc:"Interval of its heartbeats"`
	Capabilities  *givenCapabilities  `json:"capabilities,omitempty" required:"false"`
	Load          *registry.Load      `json:"load,omitempty" required:"false"`
	NodeID        *string             `json:"node_id,omitempty" required:"false" maxLength:"128"`
	IPAddrs       *[]string           `json:"ip_addrs,omitempty" required:"false" maxItems:"64"`
	ObsCount      *int64              `json:"obs_count,omitempty" required:"false" minimum:"0"`
	DBSHA         *string             `json:"db_sha,omitempty" required:"false" maxLength:"128"`
	AgentVersion  *string             `json:"agent_version,omitempty" required:"false" maxLength:"128"`
	OSInfo        *string             `json:"os_info,omitempty" required:"false" maxLength:"256"`
	InstallMethod *string             `json:"install_method,omitempty" required:"false" maxLength:"64"`
}

type givenCapabilities struct {
	ClaudeCLI      *bool     `json:"claude_cli,omitempty" required:"false"`
	MaxConcurrency *int      `json:"max_concurrency,omitempty" required:"false" minimum:"1" maximum:"32"`
	Labels         *[]string `json:"labels,omitempty" required:"false" maxItems:"64"`
}

func (f Facts) patch() (registry.AgentPatch, error) {
	lists := []*[]string{f.IPAddrs}
	if f.Capabilities != nil {
		lists = append(lists, f.Capabilities.Labels)
	}
	if err := cmp.Or(checkURL(f.URL), checkLists(lists...)); err != nil {
		return registry.AgentPatch{}, err
	}
	p := registry.AgentPatch{URL: cleaned(f.URL), Status: f.Status, Load: f.Load, NodeID: cleaned(f.NodeID), IPAddrs: cleanedList(f.IPAddrs),
		ObsCount: f.ObsCount, DBSHA: cleaned(f.DBSHA), AgentVersion: cleaned(f.AgentVersion), OSInfo: cleaned(f.OSInfo), InstallMethod: cleaned(f.InstallMethod)}
	if f.IntervalSec != nil {
		d := time.Duration(*f.IntervalSec * float64(time.Second))
		p.Interval = &d
	}
	if c := f.Capabilities; c != nil {
		p.Capabilities = &registry.CapabilitiesPatch{ClaudeCLI: c.ClaudeCLI, MaxConcurrency: c.MaxConcurrency, Labels: cleanedList(c.Labels)}
	}
	return p, nil
}

type agentQuery struct {
	Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"Most agents to return; 0 or absent: all"`
	After string `query:"after" maxLength:"128" doc:"Only agents after this name; the Link header of a page has that of the next one"`
}

type agentList struct {
	Link string `header:"Link"`
	Body []registry.Agent
}

func (s *Server) listAgents(ctx context.Context, in *agentQuery) (*agentList, error) {
	agents, err := s.store.Agents(ctx, clean(in.After), in.Limit)
	if err != nil {
		return nil, err
	}
	now := s.store.Now()
	for i := range agents {
		agents[i].Status = s.uptime.Liveness(agents[i], now)
	}
	out := &agentList{Body: agents}
	if n := len(agents); n > 0 && n == in.Limit {
		next := url.Values{"limit": {strconv.Itoa(n)}, "after": {agents[n-1].Name}}
		out.Link = "</agents?" + next.Encode() + `>; rel="next"`
	}
	return out, nil
}

type registration struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"128"`
		Facts
	}
}

type registered struct {
	Status int
	Body   struct {
		registry.Agent
		RuntimeURL string `json:"runtime_url" doc:"URL of the runtime that the agent can claim work from; empty when unknown"`
	}
}

func (s *Server) registerAgent(ctx context.Context, in *registration) (*registered, error) {
	name, err := cleanName(in.Body.Name)
	if err == nil {
		err = checkSegment(name)
	}
	if err != nil {
		return nil, err
	}
	patch, err := in.Body.patch()
	if err != nil {
		return nil, err
	}
	agent, created, err := s.store.PutAgent(ctx, name, patch, proof(ctx))
	if err != nil {
		return nil, err
	}
	out := &registered{Status: http.StatusOK}
	if created {
		out.Status = http.StatusCreated
	}
	agent.Status = s.uptime.Liveness(agent, s.store.Now())
	out.Body.Agent, out.Body.RuntimeURL = agent, s.runtimeFor(ctx)
	return out, nil
}

// AgentPath is the agent's name in a path. It is exported because huma ignores unexported embedded
// structs.
type AgentPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128"`
}

type deletedAgent struct {
	AgentPath
	NoFields
}

func (s *Server) deleteAgent(ctx context.Context, in *deletedAgent) (*struct{}, error) {
	if err := s.store.DeleteAgent(ctx, in.Name); err != nil {
		return nil, err
	}
	s.waiting.wakeAgent(in.Name)
	return nil, nil
}

type drainLevel struct {
	AgentPath
	Body *struct {
		Drain *bool `json:"drain,omitempty" required:"false" doc:"true, the default, to stop taking work; false to take work again"`
	} `required:"false"`
}

type oneAgent struct{ Body registry.Agent }

func (s *Server) drain(ctx context.Context, in *drainLevel) (*oneAgent, error) {
	drain := in.Body == nil || in.Body.Drain == nil || *in.Body.Drain
	agent, err := s.store.SetDrain(ctx, in.Name, drain)
	if err != nil {
		return nil, err
	}
	s.waiting.wakeAgent(in.Name)
	agent.Status = s.uptime.Liveness(agent, s.store.Now())
	return &oneAgent{agent}, nil
}

// liftDeadlines lets a waiting heartbeat outlast the server's timeouts, including the read timeout:
// net/http keeps reading in the background to notice a disconnect, and would mistake its own
// deadline for one.
func liftDeadlines(op *huma.Operation) {
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		_, w := humago.Unwrap(ctx)
		rc := http.NewResponseController(w)
		until := time.Now().Add(maxWait + 30*time.Second)
		_, _ = rc.SetReadDeadline(until), rc.SetWriteDeadline(until) // not supported by test recorders
		next(ctx)
	})
}
