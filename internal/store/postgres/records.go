package postgres

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// Stats adds up the counters' slots; only the workers, who are few, are counted.
func (s *Store) Stats(ctx context.Context) (bloom.Stats, error) {
	return read(ctx, s, func(c reader) (bloom.Stats, error) {
		st := bloom.Stats{Tasks: bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}}}
		var n [len(counts{})]int64
		fields := make([]any, 0, len(n)+2)
		for i := range n {
			fields = append(fields, &n[i])
		}
		err := c.QueryRow(ctx, `SELECT c.*, w.* FROM
			(SELECT sum(queued)::bigint, sum(leased)::bigint, sum(running)::bigint, sum(completed)::bigint, sum(failed)::bigint, sum(dead)::bigint,
				sum(cancelled)::bigint, sum(leases)::bigint, sum(active)::bigint FROM counters) c,
			(SELECT count(*), count(*) FILTER (WHERE status = 'online') FROM workers WHERE NOT removed) w`).
			Scan(append(fields, &st.Workers.Total, &st.Workers.Online)...)
		for i, status := range bloom.TaskStatuses {
			if n[i] != 0 {
				st.Tasks.ByStatus[status] = n[i]
				st.Tasks.Total += n[i]
			}
		}
		st.Leases = bloom.LeaseStats{Total: n[countLeases], Active: n[countActive]}
		return st, err
	})
}

// Artifact reads one artifact.
func (s *Store) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	missing := bloom.NotFound("Artifact")
	if !isID(id) {
		return bloom.Artifact{}, missing
	}
	return read(ctx, s, func(c reader) (bloom.Artifact, error) {
		return found(ctx, c, scanArtifact, missing, `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.id = $1`, id)
	})
}

// AppendAudit writes an entry that goes with no other change.
func (s *Store) AppendAudit(ctx context.Context, a bloom.Audit) error {
	_, err := together(ctx, s.lane, func(*want) {}, func(t *tx) (struct{}, error) {
		t.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		return struct{}{}, nil
	})
	return err
}

// Settings reads all settings.
func (s *Store) Settings(ctx context.Context) (map[string]string, error) {
	return read(ctx, s, func(c reader) (map[string]string, error) {
		rows, err := c.Query(ctx, `SELECT key, value FROM runtime_settings`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		all := make(map[string]string)
		for rows.Next() {
			var k, v string
			if err := rows.Scan(&k, &v); err != nil {
				return nil, err
			}
			all[k] = v
		}
		return all, rows.Err()
	})
}

// PutSettings writes settings and the audit entry of the change together.
func (s *Store) PutSettings(ctx context.Context, settings map[string]string, a bloom.Audit) error {
	keys, values := make([]string, 0, len(settings)), make([]string, 0, len(settings))
	for k, v := range settings {
		keys, values = append(keys, bloom.CleanText(k)), append(values, bloom.CleanText(v))
	}
	_, err := separately(ctx, s, func(*want) {}, func(t *tx) (struct{}, error) {
		t.changes = append(t.changes, bloom.Change{Kind: bloom.ChangeSettings})
		t.audit(a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, a.Data)
		_, err := t.c.Exec(t.ctx, `INSERT INTO runtime_settings (key, value, updated_at)
			SELECT DISTINCT ON (k) k, v, $3 FROM unnest($1::text[], $2::text[]) x (k, v) ORDER BY k
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`, keys, values, t.now)
		return struct{}{}, err
	})
	return err
}
