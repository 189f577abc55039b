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

// errStale means that another server was promoted after this one.
var errStale = errors.New("postgresql: another server was promoted in place of this one; make this one its standby")

// surveyTimeout limits how long one host may take to report its timeline.
const surveyTimeout = 3 * time.Second

// fence protects a store with several hosts from a former primary that comes back
// after a promotion: it accepts writes, and lacks what was written since. Each
// promotion begins a new timeline. The fence keeps the newest timeline seen of a
// database and refuses servers of older ones, so that the driver tries the next host.
type fence struct {
	mu      sync.Mutex
	newest  map[string]int64 // timeline by system identifier
	enabled bool             // several hosts are configured
}

// newFence asks every host for its timeline before any connection is used.
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
	f.enabled = len(hosts) > 1
	if !f.enabled {
		return f
	}
	var all sync.WaitGroup
	for _, a := range hosts {
		all.Go(func() { f.survey(ctx, cfg, a.host, a.port) })
	}
	all.Wait()
	return f
}

// survey asks one host. It ignores a host that does not answer.
func (f *fence) survey(ctx context.Context, cfg *pgx.ConnConfig, host string, port uint16) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
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

// hostTimeout is how long one of several hosts may take to answer before the next is
// tried, unless the connection string sets a timeout.
const hostTimeout = 5 * time.Second

// guard makes connections of a configuration pass the fence. Of several hosts only
// one that accepts writes is used, even if the connection string does not demand
// that.
func (f *fence) guard(cfg *pgx.ConnConfig) {
	if !f.enabled {
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

// history selects a server's system identifier and, unless it is a standby, its
// timeline.
const history = `SELECT system_identifier::text, CASE WHEN NOT pg_is_in_recovery()
	THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::text END FROM pg_control_system()`

func (f *fence) check(ctx context.Context, c *pgconn.PgConn) error {
	results, err := c.Exec(ctx, history).ReadAll()
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return nil // a managed service that hides it does its own fencing
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
