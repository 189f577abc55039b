package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

const jobColumns = `id, kind, project, canonical_id, agent, status, detail, created_at, updated_at, finished_at, output`

// maxListed bounds every list of the history.
const maxListed = 200

func scanJob(row scanner) (registry.Job, error) {
	var (
		j                registry.Job
		created, updated int64
		finished         sql.NullInt64
		output           []byte
	)
	err := row.Scan(&j.ID, &j.Kind, &j.Project, &j.CanonicalID, &j.Agent, &j.Status, &j.Detail, &created, &updated, &finished, &output)
	if err != nil {
		return j, err
	}
	j.Action, j.RequestID = j.Kind, j.ID
	j.CreatedAt, j.UpdatedAt = registry.MillisToSeconds(created), registry.MillisToSeconds(updated)
	j.FinishedAt = secondsPtr(finished)
	return j, json.Unmarshal(output, &j.JobOutput)
}

// deliver returns the agent's open jobs, oldest first, and marks the new ones delivered. Every
// heartbeat returns them until they are reported, because a response can be lost.
func (s *Store) deliver(ctx context.Context, q querier, agent string) ([]registry.Job, error) {
	jobs, err := collect(ctx, q, scanJob, `SELECT `+jobColumns+` FROM jobs
		WHERE agent = $1 AND status IN ('queued', 'delivered') ORDER BY created_at, id`, agent)
	if err != nil {
		return nil, err
	}
	for i, j := range jobs {
		if j.Status != registry.JobQueued {
			continue
		}
		jobs[i].Status = registry.JobDelivered
		_, err := q.ExecContext(ctx, `UPDATE jobs SET status = 'delivered', updated_at = $2
			WHERE id = $1 AND status = 'queued'`, j.ID, s.nowMillis())
		if err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// OpenJobs returns the agent's open jobs without a heartbeat.
func (s *Store) OpenJobs(ctx context.Context, agent string) (jobs []registry.Job, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		var err error
		jobs, err = s.deliver(ctx, q, agent)
		return err
	})
	return jobs, err
}

// report records an outcome reported by the agent. Only the first report counts.
func (s *Store) report(ctx context.Context, q querier, agent string, r registry.JobReport) error {
	if !r.Status.Final() {
		return nil
	}
	_, err := q.ExecContext(ctx, `
		UPDATE jobs SET status = $3, detail = $4, updated_at = $5, finished_at = $5, output = $6
		WHERE id = $1 AND agent = $2 AND status IN ('queued', 'delivered')`,
		r.JobID, agent, string(r.Status), r.Detail, s.nowMillis(), text(r.JobOutput))
	return err
}

// hold records that an agent is working on a job.
func (s *Store) hold(ctx context.Context, q querier, agent, id string) error {
	_, err := q.ExecContext(ctx, `UPDATE jobs SET updated_at = $3 WHERE id = $1 AND agent = $2 AND status = 'delivered'`, id, agent, s.nowMillis())
	return err
}

// AddJob records a job.
func (s *Store) AddJob(ctx context.Context, j registry.Job) error {
	return s.write(ctx, func(ctx context.Context, q querier) error {
		now := s.nowMillis()
		var finished *int64
		if j.Status.Final() {
			finished = &now
		}
		_, err := q.ExecContext(ctx, `INSERT INTO jobs (`+jobColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10)`,
			j.ID, string(j.Kind), j.Project, j.CanonicalID, j.Agent, string(j.Status), j.Detail, now, finished, text(j.JobOutput))
		return err
	})
}

// FinishJob ends a job that is not final yet, and returns it.
func (s *Store) FinishJob(ctx context.Context, r registry.JobReport) (job registry.Job, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		_, err := q.ExecContext(ctx, `
			UPDATE jobs SET status = $2, detail = $3, updated_at = $4, finished_at = $4, output = $5
			WHERE id = $1 AND status IN ('queued', 'delivered')`, r.JobID, string(r.Status), r.Detail, s.nowMillis(), text(r.JobOutput))
		if err != nil {
			return err
		}
		job, err = scanJob(q.QueryRowContext(ctx, `SELECT `+jobColumns+` FROM jobs WHERE id = $1`, r.JobID))
		return orMissing(err, registry.ErrNoJob)
	})
	return job, err
}

// Job returns one job.
func (s *Store) Job(ctx context.Context, id string) (registry.Job, error) {
	j, err := scanJob(s.read.QueryRowContext(ctx, `SELECT `+jobColumns+` FROM jobs WHERE id = $1`, id))
	return j, orMissing(err, registry.ErrNoJob)
}

// Jobs returns the history, newest first.
func (s *Store) Jobs(ctx context.Context, f registry.JobFilter) ([]registry.Job, error) {
	return collect(ctx, s.read, scanJob, `SELECT `+jobColumns+` FROM jobs
		WHERE $1 = '' OR project = $1 OR canonical_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`, f.Project, listed(f.Limit))
}

func listed(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, maxListed)
}

// AgentsWithQueuedJobs returns the agents that have a queued job.
func (s *Store) AgentsWithQueuedJobs(ctx context.Context) ([]string, error) {
	scan := func(row scanner) (name string, err error) { return name, row.Scan(&name) }
	return collect(ctx, s.read, scan, `SELECT DISTINCT agent FROM jobs WHERE status = 'queued'`)
}

// ExpireJobs fails the open jobs without any report since a time.
func (s *Store) ExpireJobs(ctx context.Context, before time.Time, detail string) (n int, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		res, err := q.ExecContext(ctx, `
			UPDATE jobs SET status = 'failed', detail = $2, updated_at = $3, finished_at = $3
			WHERE status IN ('queued', 'delivered') AND updated_at < $1`, before.UnixMilli(), detail, s.nowMillis())
		n, err = changed(res, err)
		return err
	})
	return n, err
}

// TrimJobs deletes final jobs beyond the newest keep.
func (s *Store) TrimJobs(ctx context.Context, keep int) (n int, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		res, err := q.ExecContext(ctx, `
			DELETE FROM jobs WHERE status IN ('completed', 'failed') AND id NOT IN
				(SELECT id FROM jobs ORDER BY created_at DESC, id DESC LIMIT $1)`, keep)
		n, err = changed(res, err)
		return err
	})
	return n, err
}

func changed(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
