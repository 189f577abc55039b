package sqlite

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Write runs fn in the writer's next transaction, with a way to change things.
func (s *Store) Write(ctx context.Context, fn func(put func(query string, args ...any) error) error) error {
	_, err := write(ctx, s, func(t *tx) (struct{}, error) {
		t.mem.forget() // of what is changed behind its back
		return struct{}{}, fn(func(query string, args ...any) error {
			_, err := t.put(query, args...)
			return err
		})
	})
	return err
}

// Plans is how SQLite would run every statement that this store has prepared.
func (s *Store) Plans() map[string]string {
	plans := map[string]string{}
	explain := func(c *conn) {
		for _, q := range slices.Collect(maps.Keys(c.stmts)) {
			first, _, _ := strings.Cut(q, " ")
			if first != "SELECT" && first != "UPDATE" && first != "INSERT" && first != "DELETE" {
				continue
			}
			var steps []string
			err := c.each("EXPLAIN QUERY PLAN "+q, func(r row) error {
				steps = append(steps, r.str(3))
				return nil
			}, make([]any, strings.Count(q, "?"))...)
			if err != nil {
				steps = append(steps, err.Error())
			}
			plans[q] = strings.Join(steps, "; ")
		}
	}
	_, err := write(context.Background(), s, func(t *tx) (struct{}, error) {
		explain(t.conn)
		return struct{}{}, nil
	})
	if err != nil {
		return plans // it is closed
	}
	for range cap(s.read.slots) {
		c := <-s.read.slots
		if c != nil {
			explain(c)
		}
		s.read.slots <- c
	}
	return plans
}

// Queued is how many operations wait for the writer.
func (s *Store) Queued() int { return s.w.queue.Len() }
