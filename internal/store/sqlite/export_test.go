package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom/internal/store"
)

// Plans returns SQLite's query plan for every statement that this store has prepared. Afterwards
// the store may only be closed.
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
			}, make([]any, strings.Count(q, "?")+distinct(q))...)
			if err != nil {
				steps = append(steps, err.Error())
			}
			plans[q] = strings.Join(steps, "; ")
		}
	}
	if s.Ping(background) != nil {
		return plans // it is closed
	}
	explain(s.db.write)
	for range cap(s.db.read.slots) {
		c := <-s.db.read.slots
		if c != nil {
			explain(c)
		}
		s.db.read.slots <- c
	}
	return plans
}

// distinct returns how many numbered parameters a query has.
func distinct(q string) int {
	n := 0
	for strings.Contains(q, fmt.Sprintf("$%d", n+1)) {
		n++
	}
	return n
}

// ReadForever runs a query that never ends by itself.
func (s *Store) ReadForever(ctx context.Context) error {
	return s.db.Run(ctx, func(c store.Conn) error {
		return c.Query(ctx, func(store.Row) error { return nil }, `WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM n) SELECT max(x) FROM n`)
	})
}
