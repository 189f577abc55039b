package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errStale says that a server's history ended where another one's goes on.
var errStale = errors.New("postgresql: this server was replaced by one that was promoted; make it a standby of that one")

// surveyFor bounds how long one host may take to say how far its history goes.
const surveyFor = 3 * time.Second

// fence keeps a store with several hosts from the one that was the primary before
// a promotion and came back as if nothing had happened: it can be written to, and
// lacks what was written since. Each promotion begins a new timeline. The fence
// remembers the newest that it has seen of a database and refuses servers of
// older ones, so that the driver tries the next host.
type fence struct {
	mu       sync.Mutex
	newest   map[string]int64 // timeline by the system's identifier
	distrust bool             // several hosts are named
}

// newFence asks every host before the first connection is taken from any.
func newFence(ctx context.Context, cfg *pgx.ConnConfig) *fence {
	f := &fence{newest: map[string]int64{}}
	type address struct {
		host string
		port uint16
	}
	hosts := []address{{cfg.Host, cfg.Port}}
	for _, other := range cfg.Fallbacks {
		if a := (address{other.Host, other.Port}); !slices.Contains(hosts, a) {
			hosts = append(hosts, a)
		}
	}
	f.distrust = len(hosts) > 1
	if !f.distrust {
		return f
	}
	var all sync.WaitGroup
	for _, a := range hosts {
		all.Go(func() { f.survey(ctx, cfg, a.host, a.port) })
	}
	all.Wait()
	return f
}

// survey looks at one host. One that does not answer has nothing to say.
func (f *fence) survey(ctx context.Context, cfg *pgx.ConnConfig, host string, port uint16) {
	ctx, cancel := context.WithTimeout(ctx, surveyFor)
	defer cancel()
	only := cfg.Copy()
	only.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error { return f.check(ctx, c) }
	only.Fallbacks = slices.DeleteFunc(only.Fallbacks, func(o *pgconn.FallbackConfig) bool { return o.Host != host || o.Port != port })
	if only.Host != host || only.Port != port {
		first := only.Fallbacks[0]
		only.Host, only.Port, only.TLSConfig, only.Fallbacks = first.Host, first.Port, first.TLSConfig, only.Fallbacks[1:]
	}
	if c, err := pgx.ConnectConfig(ctx, only); err == nil {
		_ = c.Close(ctx)
	}
}

// hostTimeout is how long one of several hosts may take to answer before the next
// is tried, unless the connection string says so itself.
const hostTimeout = 5 * time.Second

// guard makes connections of a configuration pass the fence. Of several hosts one
// that can be written to is taken, also when the connection string forgot to say so.
func (f *fence) guard(cfg *pgx.ConnConfig) {
	if !f.distrust {
		return
	}
	chosen := cfg.ValidateConnect // what target_session_attrs asks for
	if chosen == nil {
		chosen = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, hostTimeout)
	cfg.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if err := chosen(ctx, c); err != nil {
			return err
		}
		return f.check(ctx, c)
	}
}

// history is who a server is and, unless it follows another, its timeline.
const history = `SELECT system_identifier::text, CASE WHEN NOT pg_is_in_recovery()
	THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::text END FROM pg_control_system()`

func (f *fence) check(ctx context.Context, c *pgconn.PgConn) error {
	results, err := c.Exec(ctx, history).ReadAll()
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return nil // a service that does not tell has a fence of its own
	case err != nil:
		return err
	case len(results) != 1 || len(results[0].Rows) != 1 || results[0].Rows[0][1] == nil:
		return nil
	}
	system := string(results[0].Rows[0][0])
	timeline, err := strconv.ParseInt(string(results[0].Rows[0][1]), 10, 64)
	if err != nil {
		return fmt.Errorf("postgresql: timeline: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if timeline < f.newest[system] {
		return errStale
	}
	f.newest[system] = timeline
	return nil
}
