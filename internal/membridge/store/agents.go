package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

const agentColumns = `name, url, status, interval_ms, capabilities, load, node_id, ip_addrs, obs_count, db_sha,
	agent_version, os_info, install_method, drain, registered_at, last_seen, heartbeat_at, bound,
	posted_at`

func scanAgent(row scanner) (registry.Agent, error) {
	var (
		a                registry.Agent
		interval, regist int64
		posted           int64
		caps, load, ips  []byte
		drain            int
		seen, heartbeat  sql.NullInt64
	)
	err := row.Scan(&a.Name, &a.URL, &a.Status, &interval, &caps, &load, &a.NodeID, &ips, &a.ObsCount, &a.DBSHA,
		&a.AgentVersion, &a.OSInfo, &a.InstallMethod, &drain, &regist, &seen, &heartbeat, &a.Token,
		&posted)
	if err != nil {
		return a, err
	}
	err = errors.Join(json.Unmarshal(caps, &a.Capabilities), json.Unmarshal(load, &a.Load), json.Unmarshal(ips, &a.IPAddrs))
	a.IntervalSec = registry.MillisToSeconds(interval)
	a.RegisteredAt, a.PostedAt = registry.MillisToSeconds(regist), registry.MillisToSeconds(posted)
	a.Drain, a.Bound = drain != 0, a.Token != ""
	a.LastSeen, a.HeartbeatAt = secondsPtr(seen), secondsPtr(heartbeat)
	return a, err
}

// saveAgent writes the agent. now is its last contact; isHeartbeat reports whether that was a
// heartbeat or a registration. A registration of an agent that sends heartbeats counts as a
// heartbeat, too.
func saveAgent(ctx context.Context, q querier, a registry.Agent, now int64, isHeartbeat bool) error {
	caps, load, ips := text(a.Capabilities), text(a.Load), text(a.IPAddrs)
	var heartbeat, lastSeen *int64 // nil keeps the stored value
	posted := int64(0)             // keeps the stored value
	if !isHeartbeat {
		posted = now
	}
	if isHeartbeat || a.HeartbeatAt != nil {
		heartbeat, lastSeen = &now, &now
	}
	_, err := q.ExecContext(ctx, `
		INSERT INTO agents (`+agentColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, $14, $18, $15, $16, $17)
		ON CONFLICT (name) DO UPDATE SET
			url = excluded.url, status = excluded.status, interval_ms = excluded.interval_ms,
			capabilities = excluded.capabilities, load = excluded.load, node_id = excluded.node_id,
			ip_addrs = excluded.ip_addrs, obs_count = excluded.obs_count, db_sha = excluded.db_sha,
			agent_version = excluded.agent_version, os_info = excluded.os_info,
			install_method = excluded.install_method, last_seen = coalesce(excluded.last_seen, agents.last_seen),
			heartbeat_at = excluded.heartbeat_at, bound = excluded.bound,
			posted_at = CASE WHEN excluded.posted_at = 0 THEN agents.posted_at ELSE excluded.posted_at END`,
		a.Name, a.URL, string(a.Status), int64(a.IntervalSec*1000), caps, load, a.NodeID, ips, int64(a.ObsCount), a.DBSHA,
		string(a.AgentVersion), a.OSInfo, string(a.InstallMethod), now, heartbeat, a.Token, posted, lastSeen)
	return err
}

// text encodes a value that can always be encoded.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("membridge store: cannot encode %T: %v", v, err))
	}
	return string(b)
}

// agentForUpdate reads an agent that the transaction will change.
func (s *Store) agentForUpdate(ctx context.Context, q querier, name string) (registry.Agent, error) {
	a, err := scanAgent(q.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM agents WHERE name = $1`+s.lockRow, name))
	return a, orMissing(err, registry.ErrNoAgent)
}

// PutAgent creates or updates an agent.
func (s *Store) PutAgent(ctx context.Context, name string, patch registry.AgentPatch, by registry.Proof) (agent registry.Agent, created bool, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		now := s.Now()
		var err error
		agent, err = s.agentForUpdate(ctx, q, name)
		if registry.IsMissing(err) {
			// Of two concurrent registrations of a new name, the second must see the token that the
			// first has bound.
			if err := s.claimName(ctx, q, "agent "+name); err != nil {
				return err
			}
			agent, err = s.agentForUpdate(ctx, q, name)
		}
		created = registry.IsMissing(err)
		if err != nil && !created {
			return err
		}
		if created {
			if err := s.checkRoom(ctx, q, `SELECT count(*) FROM agents`, by); err != nil {
				return err
			}
			agent = registry.NewAgent(name, now)
		}
		if agent.Token, err = by.Bind(agent.Token); err != nil {
			return err
		}
		patch.Apply(&agent)
		if err := saveAgent(ctx, q, agent, now.UnixMilli(), false); err != nil {
			return err
		}
		agent, err = scanAgent(q.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM agents WHERE name = $1`, name))
		return err
	})
	return agent, created, err
}

// Heartbeat records a heartbeat and returns the agent's open jobs.
func (s *Store) Heartbeat(ctx context.Context, name string, patch registry.AgentPatch, report registry.JobsReport, by registry.Proof) (res registry.HeartbeatResult, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		now := s.Now()
		agent, err := s.agentForUpdate(ctx, q, name)
		if err != nil {
			return err
		}
		if agent.Token, err = by.Bind(agent.Token); err != nil {
			return err
		}
		agent.Bound = agent.Token != ""
		// A heartbeat sets an agent online that silence had set offline, and so does a successful
		// sync, unless the heartbeat reports another status.
		synced := slices.ContainsFunc(report.Reports, func(r registry.JobReport) bool { return r.Status == registry.JobCompleted })
		if patch.Status == nil && (synced || agent.Status == bloom.WorkerOffline || agent.Status == bloom.WorkerUnknown) {
			agent.Status = bloom.WorkerOnline
		}
		patch.Apply(&agent)
		if err := saveAgent(ctx, q, agent, now.UnixMilli(), true); err != nil {
			return err
		}
		for _, r := range report.Reports {
			if err := s.report(ctx, q, name, r); err != nil {
				return err
			}
		}
		for _, id := range report.Held {
			if err := s.hold(ctx, q, name, id); err != nil {
				return err
			}
		}
		seen := registry.ToSeconds(now)
		agent.LastSeen, agent.HeartbeatAt = &seen, &seen
		jobs, err := s.deliver(ctx, q, name)
		res = registry.HeartbeatResult{Agent: agent, Jobs: jobs}
		return err
	})
	return res, err
}

// SetDrain drains or undrains an agent.
func (s *Store) SetDrain(ctx context.Context, name string, drain bool) (agent registry.Agent, err error) {
	flag := 0
	if drain {
		flag = 1
	}
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		var err error
		agent, err = scanAgent(q.QueryRowContext(ctx, `
			UPDATE agents SET drain = $2 WHERE name = $1 RETURNING `+agentColumns, name, flag))
		return orMissing(err, registry.ErrNoAgent)
	})
	return agent, err
}

// Touch records the contact of an agent whose heartbeat is waiting.
func (s *Store) Touch(ctx context.Context, name string) error {
	return s.write(ctx, func(ctx context.Context, q querier) error {
		res, err := q.ExecContext(ctx, `UPDATE agents SET last_seen = $2, heartbeat_at = $2 WHERE name = $1`, name, s.nowMillis())
		return affected(res, err, registry.ErrNoAgent)
	})
}

// Answered records that an agent responded to a call.
func (s *Store) Answered(ctx context.Context, name string) error {
	return s.write(ctx, func(ctx context.Context, q querier) error {
		res, err := q.ExecContext(ctx, `
			UPDATE agents SET status = 'online', last_seen = $2,
				heartbeat_at = CASE WHEN heartbeat_at IS NULL THEN NULL ELSE $3 END WHERE name = $1`, name, s.nowMillis(), s.nowMillis())
		return affected(res, err, registry.ErrNoAgent)
	})
}

// DrainLevels returns whether each of the named agents is drained.
func (s *Store) DrainLevels(ctx context.Context, names []string) (map[string]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	levels := make(map[string]bool, len(names))
	_, err := collect(ctx, s.read, func(row scanner) (struct{}, error) {
		var name string
		var drain int
		err := row.Scan(&name, &drain)
		levels[name] = drain != 0
		return struct{}{}, err
	}, `SELECT a.name, a.drain FROM agents a JOIN (`+s.eachName+`) w ON w.name = a.name`, text(names))
	return levels, err
}

// Agent returns one agent.
func (s *Store) Agent(ctx context.Context, name string) (registry.Agent, error) {
	a, err := scanAgent(s.read.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM agents WHERE name = $1`, name))
	return a, orMissing(err, registry.ErrNoAgent)
}

// Agents returns the agents by name, from after that name on, at most limit; 0 means all.
func (s *Store) Agents(ctx context.Context, after string, limit int) ([]registry.Agent, error) {
	return collect(ctx, s.read, scanAgent, `SELECT `+agentColumns+` FROM agents WHERE name > $1 ORDER BY name LIMIT $2`, after, cmp.Or(limit, math.MaxInt32))
}

// DeleteAgent deletes an agent and fails its open jobs.
func (s *Store) DeleteAgent(ctx context.Context, name string) error {
	return s.write(ctx, func(ctx context.Context, q querier) error {
		res, err := q.ExecContext(ctx, `DELETE FROM agents WHERE name = $1`, name)
		if err := affected(res, err, registry.ErrNoAgent); err != nil {
			return err
		}
		_, err = q.ExecContext(ctx, `
			UPDATE jobs SET status = 'failed', detail = 'The agent was removed', updated_at = $2, finished_at = $2
			WHERE agent = $1 AND status IN ('queued', 'delivered')`, name, s.nowMillis())
		return err
	})
}
