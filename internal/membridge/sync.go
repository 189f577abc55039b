package membridge

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

func (s *Server) jobRoutes() {
	operation(s, http.MethodPost, "/sync/push", "Make an agent upload a project's memory to object storage",
		func(ctx context.Context, in *syncOrder) (*syncAnswer, error) {
			return s.sync(ctx, registry.JobPush, in)
		})
	operation(s, http.MethodPost, "/sync/pull", "Make an agent download a project's memory from object storage",
		func(ctx context.Context, in *syncOrder) (*syncAnswer, error) {
			return s.sync(ctx, registry.JobPull, in)
		})
	operation(s, http.MethodGet, "/jobs", "Sync history, newest first", s.listJobs)
	operation(s, http.MethodGet, "/jobs/{id}", "One sync job", s.getJob)
}

type syncOrder struct {
	Body struct {
		Project string `json:"project" minLength:"1" maxLength:"256" doc:"Name or canonical_id"`
		Agent   string `json:"agent" minLength:"1" maxLength:"128"`
		DryRun  bool   `json:"dryrun" required:"false" doc:"Refused when true: there are no dry runs"`
	}
}

type syncAnswer struct {
	Body struct {
		OK          bool   `json:"ok" doc:"The command was accepted; see status"`
		Status      string `json:"status" enum:"queued,completed" doc:"queued: the agent gets it with its next heartbeat; the job has the outcome"`
		Project     string `json:"project"`
		Agent       string `json:"agent"`
		CanonicalID string `json:"canonical_id"`
		Detail      string `json:"detail"`
		JobID       string `json:"job_id"`
	}
}

// sync commands an agent to synchronize a project's memory. An agent that sends heartbeats gets the
// command with the next one; another one with a URL is called.
func (s *Server) sync(ctx context.Context, kind registry.JobKind, in *syncOrder) (*syncAnswer, error) {
	if in.Body.DryRun {
		return nil, problem(http.StatusBadRequest, "dryrun: there are no dry runs; nothing was done")
	}
	project, err := s.findProject(ctx, in.Body.Project)
	if err != nil {
		return nil, err
	}
	agent, err := s.store.Agent(ctx, clean(in.Body.Agent))
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	job := registry.Job{ID: id.String(), Kind: kind, Project: project.Name, CanonicalID: project.CanonicalID, Agent: agent.Name,
		Status: registry.JobQueued, Detail: "Waiting for the agent's next heartbeat"}
	beats := agent.HeartbeatAt != nil && s.uptime.Liveness(agent, s.store.Now()) != bloom.WorkerOffline
	switch {
	case beats:
		s.metrics.jobs.WithLabelValues(string(kind), "heartbeat").Inc()
		if err := s.store.AddJob(ctx, job); err != nil {
			return nil, err
		}
		s.waiting.wakeAgent(agent.Name)
	case agent.URL != "":
		s.metrics.jobs.WithLabelValues(string(kind), "call").Inc()
		if job, err = s.syncByCall(ctx, job, agent); err != nil {
			return nil, err
		}
	default:
		job.Status, job.Detail = registry.JobFailed, "it is offline and has no URL to call"
		if agent.HeartbeatAt == nil {
			job.Detail = "it never sent a heartbeat, which fetches commands, and has no URL to call"
		}
		if err := s.store.AddJob(ctx, job); err != nil {
			return nil, err
		}
		return nil, jobFailure(unreachable, job)
	}
	out := &syncAnswer{}
	b := &out.Body
	b.OK, b.Status = true, string(job.Status)
	b.Project, b.Agent, b.CanonicalID, b.Detail, b.JobID = job.Project, job.Agent, job.CanonicalID, job.Detail, job.ID
	return out, nil
}

// syncByCall sends the command by calling the agent. It waits for the outcome, up to
// Config.AgentTimeout, and stores it even if the caller is gone: the agent may carry out the command
// nevertheless.
func (s *Server) syncByCall(ctx context.Context, job registry.Job, agent registry.Agent) (registry.Job, error) {
	job.Status, job.Detail = registry.JobDelivered, "Calling the agent"
	if err := s.store.AddJob(ctx, job); err != nil {
		return job, err
	}
	call, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	defer context.AfterFunc(s.quiesced, func() { // nobody waits for a call whose caller is gone
		select {
		case <-ctx.Done():
			hangUp()
		case <-call.Done():
		}
	})()
	report, failed := s.callAgent(call, agent, job)
	report.JobID, report.Status = job.ID, registry.JobCompleted
	if failed != nil {
		report.Status, report.Detail = registry.JobFailed, failed.Error()
	}
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	job, err := s.store.FinishJob(keep, report)
	if err == nil && failed == nil {
		if err = s.store.Answered(keep, agent.Name); errors.Is(err, registry.ErrNoAgent) {
			err = nil // deleted in the meantime
		}
	}
	switch {
	case err != nil:
		return job, err
	case job.Status == registry.JobCompleted:
		return job, nil
	case errors.As(failed, new(agentRefusal)):
		return job, jobFailure("The agent failed: ", job)
	}
	return job, jobFailure(unreachable, job)
}

const unreachable = "Agent unreachable: "

// jobFailure returns the response for a failed job.
func jobFailure(why string, job registry.Job) error {
	p := problem(http.StatusBadGateway, why+job.Detail)
	p.JobID = job.ID
	return p
}

// findProject finds a project by canonical id, otherwise by name.
func (s *Server) findProject(ctx context.Context, key string) (registry.Project, error) {
	projects, err := s.store.Projects(ctx)
	if err != nil {
		return registry.Project{}, err
	}
	var named []registry.Project
	for _, p := range projects {
		if p.CanonicalID == key {
			return p, nil
		}
		if p.Name == key {
			named = append(named, p)
		}
	}
	switch len(named) {
	case 0:
		return registry.Project{}, registry.ErrNoProject
	case 1:
		return named[0], nil
	}
	return registry.Project{}, registry.ErrTwins
}

type jobQuery struct {
	Limit   int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Project string `query:"project" maxLength:"256" doc:"A project's name or canonical_id"`
}

type jobList struct{ Body []registry.Job }

func (s *Server) listJobs(ctx context.Context, in *jobQuery) (*jobList, error) {
	jobs, err := s.store.Jobs(ctx, registry.JobFilter{Project: clean(in.Project), Limit: in.Limit})
	return &jobList{jobs}, err
}

type jobID struct {
	ID string `path:"id" maxLength:"64"`
}

type oneJob struct{ Body registry.Job }

func (s *Server) getJob(ctx context.Context, in *jobID) (*oneJob, error) {
	job, err := s.store.Job(ctx, in.ID)
	return &oneJob{job}, err
}
