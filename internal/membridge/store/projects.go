package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

const projectQuery = `
	SELECT p.name, p.canonical_id, p.created_at, p.source, count(n.node_id), max(n.last_seen)
	FROM projects p LEFT JOIN nodes n ON n.canonical_id = p.canonical_id
	%s GROUP BY p.canonical_id, p.name, p.created_at, p.source ORDER BY p.name, p.canonical_id`

func scanProject(row scanner) (registry.Project, error) {
	var (
		p       registry.Project
		created sql.NullInt64
		seen    sql.NullInt64
	)
	err := row.Scan(&p.Name, &p.CanonicalID, &created, &p.Source, &p.NodesCount, &seen)
	p.CreatedAt, p.LastSeen = secondsPtr(created), secondsPtr(seen)
	return p, err
}

// CreateProject creates a manual project; one known only from heartbeats becomes manual.
func (s *Store) CreateProject(ctx context.Context, name string) (project registry.Project, err error) {
	cid := registry.CanonicalID(name)
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		res, err := q.ExecContext(ctx, `
			INSERT INTO projects (canonical_id, name, source, created_at) VALUES ($1, $2, 'manual', $3)
			ON CONFLICT (canonical_id) DO UPDATE SET name = excluded.name, source = 'manual'
			WHERE projects.source <> 'manual'`, cid, name, s.nowMillis())
		if err := affected(res, err, registry.ErrExists); err != nil {
			return err
		}
		project, err = scanProject(q.QueryRowContext(ctx, projectsWhere("WHERE p.canonical_id = $1"), cid))
		return err
	})
	return project, err
}

// Projects returns all projects by name.
func (s *Store) Projects(ctx context.Context) ([]registry.Project, error) {
	return collect(ctx, s.read, scanProject, projectsWhere(""))
}

// DeleteProject deletes the project with that name or canonical id and its nodes, and ends its
// term.
func (s *Store) DeleteProject(ctx context.Context, key string) error {
	return s.write(ctx, func(ctx context.Context, q querier) error {
		cid, err := s.projectForUpdate(ctx, q, key)
		if err != nil {
			return err
		}
		known, err := changed(q.ExecContext(ctx, `DELETE FROM projects WHERE canonical_id = $1`, cid))
		if err != nil {
			return err
		}
		nodes, err := changed(q.ExecContext(ctx, `DELETE FROM nodes WHERE canonical_id = $1`, cid))
		if err != nil {
			return err
		}
		if known+nodes == 0 {
			return registry.ErrNoProject
		}
		_, err = q.ExecContext(ctx, `
			UPDATE terms SET expires_at = $2 WHERE canonical_id = $1 AND expires_at > $2
			AND epoch = (SELECT max(epoch) FROM terms WHERE canonical_id = $1)`, cid, s.nowMillis())
		return err
	})
}

// projectForUpdate finds the project with that canonical id, otherwise the one with that name. It
// locks the row, so that two deletions run one after the other.
func (s *Store) projectForUpdate(ctx context.Context, q querier, key string) (cid string, err error) {
	for _, condition := range []string{`canonical_id = $1`, `name = $1`} {
		found, err := collect(ctx, q, func(row scanner) (id string, err error) { return id, row.Scan(&id) },
			`SELECT canonical_id FROM projects WHERE `+condition+s.lockRow, key)
		switch {
		case err != nil:
			return "", err
		case len(found) > 1:
			return "", registry.ErrTwins
		case len(found) == 1:
			return found[0], nil
		}
	}
	return key, nil // nodes may have reported for a project without a name
}

const (
	nodeColumns = `canonical_id, node_id, obs_count, db_sha, ip_addrs, project_id, agent_version, registered_at, last_seen`
	nodeOf      = `FROM nodes WHERE canonical_id = $1 AND node_id = $2`
)

func scanNode(row scanner) (registry.Node, error) {
	var (
		n                registry.Node
		ips              []byte
		registered, seen int64
		observations     int64
	)
	err := row.Scan(&n.CanonicalID, &n.NodeID, &observations, &n.DBSHA, &ips, &n.ProjectID, &n.AgentVersion, &registered, &seen)
	if err != nil {
		return n, err
	}
	n.Role = registry.RoleUnknown
	if observations >= 0 { // -1: unknown
		n.ObsCount = &observations
	}
	n.RegisteredAt, n.LastSeen = registry.MillisToSeconds(registered), registry.MillisToSeconds(seen)
	return n, json.Unmarshal(ips, &n.IPAddrs)
}

// NodeHeartbeat records a node's heartbeat and returns the current term.
func (s *Store) NodeHeartbeat(ctx context.Context, b registry.NodeHeartbeat) (term *registry.Term, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		now := s.nowMillis()
		if b.ProjectID != nil && *b.ProjectID != "" {
			// Never replaces a manual project, nor the name that a project already has.
			_, err := q.ExecContext(ctx, `
				INSERT INTO projects (canonical_id, name, source, created_at) VALUES ($1, $2, 'heartbeat', $3)
				ON CONFLICT (canonical_id) DO NOTHING`, b.CanonicalID, *b.ProjectID, now)
			if err != nil {
				return err
			}
		}
		bound, err := s.bindNode(ctx, q, b)
		if err != nil {
			return err
		}
		if err := saveNode(ctx, q, b, bound, now); err != nil {
			return err
		}
		term, err = currentTerm(ctx, q, b.CanonicalID)
		return err
	})
	return term, err
}

// bindNode returns what the node is bound to after the heartbeat, if the caller may change it.
func (s *Store) bindNode(ctx context.Context, q querier, b registry.NodeHeartbeat) (string, error) {
	var bound string
	read := func() error {
		return q.QueryRowContext(ctx, `SELECT bound `+nodeOf+s.lockRow, b.CanonicalID, b.NodeID).Scan(&bound)
	}
	err := read()
	if errors.Is(err, sql.ErrNoRows) {
		if err := s.claimName(ctx, q, "node "+b.CanonicalID+" "+b.NodeID); err != nil {
			return "", err
		}
		err = read()
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = s.checkRoom(ctx, q, `SELECT count(*) FROM nodes`, b.Proof)
	}
	if err != nil {
		return "", err
	}
	return b.Proof.Bind(bound)
}

// saveNode writes the fields that the heartbeat sets and keeps the others.
func saveNode(ctx context.Context, q querier, b registry.NodeHeartbeat, bound string, now int64) error {
	var ips *string
	if b.IPAddrs != nil {
		t := text(*b.IPAddrs)
		ips = &t
	}
	_, err := q.ExecContext(ctx, `
		INSERT INTO nodes (`+nodeColumns+`, bound)
		VALUES ($1, $2, coalesce($3, -1), coalesce($4, ''), coalesce($5, '[]'), $6, coalesce($7, ''), $8, $8, $9)
		ON CONFLICT (canonical_id, node_id) DO UPDATE SET
			obs_count = coalesce($3, nodes.obs_count), db_sha = coalesce($4, nodes.db_sha),
			ip_addrs = coalesce($5, nodes.ip_addrs), project_id = coalesce($6, nodes.project_id),
			agent_version = coalesce($7, nodes.agent_version), last_seen = excluded.last_seen,
			bound = excluded.bound`,
		b.CanonicalID, b.NodeID, b.ObsCount, b.DBSHA, ips, b.ProjectID, b.AgentVersion, now, bound)
	return err
}

// Leadership returns a project's term and its nodes.
func (s *Store) Leadership(ctx context.Context, cid string) (st registry.Leadership, err error) {
	st.Nodes, err = collect(ctx, s.read, scanNode,
		`SELECT `+nodeColumns+` FROM nodes WHERE canonical_id = $1 ORDER BY node_id`, cid)
	if err != nil {
		return st, err
	}
	st.Current, err = currentTerm(ctx, s.read, cid)
	return st, err
}

// projectsWhere returns the query with a condition, which must be constant and never from input.
func projectsWhere(condition string) string { return fmt.Sprintf(projectQuery, condition) }
