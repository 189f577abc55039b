package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// minVersion is PostgreSQL 15 as the server numbers it.
const minVersion = 150000

// lookUps is the number of extra connections for checking the outcome of commits.
const lookUps = 2

// readSettings apply to all connections. Sequential scans are off, because plans that
// never scan a growing table are right even before the first ANALYZE. JIT is off,
// because the cost that this assigns to scans would trigger it.
var readSettings = map[string]string{
	"application_name": "bloom",
	"jit":              "off",
	"enable_seqscan":   "off",
	// Lists need the index's order, not all of its matches.
	"enable_bitmapscan": "off",
	// Regardless of how the database or the role is configured.
	"client_encoding":               "UTF8",
	"default_transaction_isolation": "read committed",
}

// hotSettings apply to connections that write. They run a few fixed statements, each
// planned once to use indexes.
var hotSettings = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	// A bloom server that freezes in a transaction must not block others for longer
	// than their patience. Rows are never waited for. Other locks (of a table, or of a
	// value being inserted) are waited for briefly; then the operations are retried
	// one by one.
	"idle_in_transaction_session_timeout": "5000",
	"lock_timeout":                        "100",
}

// ErrAddress means that a connection string cannot be parsed.
var ErrAddress = errors.New("postgresql: DATABASE_URL is not a PostgreSQL address that can be read")

// parse parses a connection string. Its error never quotes it, because it may contain
// a password.
func parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, ErrAddress
	}
	addSettings(cfg, readSettings)
	cfg.DialFunc = dial
	return cfg, nil
}

// addSettings adds settings that the connection string does not contain.
func addSettings(cfg *pgx.ConnConfig, settings map[string]string) {
	for name, value := range settings {
		if _, chosen := cfg.RuntimeParams[name]; !chosen {
			cfg.RuntimeParams[name] = value
		}
	}
}

// Connect opens a connection to fill a database. The caller closes it.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// ErrHalfImported means that an import into the database has begun and not finished.
var ErrHalfImported = errors.New("postgresql: an import into this database was broken off; " +
	"run the same bloom migrate import again to finish it, or drop the database")

// checkWhole refuses a database with an unfinished import.
func (d *database) checkWhole(ctx context.Context) error {
	var half bool
	if err := d.reads.QueryRow(ctx, `SELECT to_regclass('bloom_import') IS NOT NULL`).Scan(&half); err != nil {
		return fmt.Errorf("postgresql: %w", err)
	}
	if half {
		return ErrHalfImported
	}
	return nil
}

func (d *database) openPool(ctx context.Context, most int32, settings map[string]string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(d.cfg.URL)
	if err != nil {
		return nil, ErrAddress
	}
	all := maps.Clone(readSettings)
	maps.Copy(all, settings)
	addSettings(cfg.ConnConfig, all)
	cfg.ConnConfig.DialFunc = dial
	d.fence.guard(cfg.ConnConfig)
	cfg.ConnConfig.OnNotice = noteWarning
	cfg.AfterConnect = noteSession
	cfg.MaxConns = most
	cfg.MaxConnIdleTime = 5 * time.Minute
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgresql: %w", err)
	}
	return pool, nil
}

// checkVersion refuses a server that lacks what the store needs.
func checkVersion(ctx context.Context, cfg *pgx.ConnConfig) error {
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return cannotConnect(err)
	}
	defer func() { _ = c.Close(ctx) }()
	var number int
	var version, scans, encoding string
	err = c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('enable_seqscan'),
		current_setting('server_encoding')`).Scan(&number, &version, &scans, &encoding)
	if err != nil {
		return fmt.Errorf("postgresql: %w", err)
	}
	if cfg.RuntimeParams["enable_seqscan"] == "off" && scans != "off" {
		return fmt.Errorf("%w (it is configured to ignore settings of the connection)", ErrPooler)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("postgresql: the database's encoding is %s, bloom needs UTF8; create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return supported(number, version)
}

// ErrPooler means that the address is a connection pooler's.
var ErrPooler = errors.New("postgresql: the address is that of a pooler such as PgBouncer, which does not keep a connection's settings and locks; " +
	"name the server itself, bloom pools its connections")

// cannotConnect recognizes a pooler by its refusal of the connection's settings.
func cannotConnect(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.Contains(pg.Message, "unsupported startup parameter") {
		return fmt.Errorf("%w (%s)", ErrPooler, pg.Message)
	}
	return fmt.Errorf("postgresql: cannot connect: %w", err)
}

func supported(number int, version string) error {
	if number < minVersion {
		return fmt.Errorf("postgresql: the server is PostgreSQL %s, bloom needs 15 or newer; upgrade the server", version)
	}
	return nil
}

// warnUnsafe logs a warning if the server may lose acknowledged writes.
func (d *database) warnUnsafe(ctx context.Context) {
	for _, name := range []string{"fsync", "synchronous_commit"} {
		var value string
		if err := d.reads.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err == nil && strings.EqualFold(value, "off") {
			d.cfg.Logger.Warn("postgresql may lose acknowledged writes in a power failure", "setting", name, "value", value)
		}
	}
}

// Run runs fn on the pool of readers, and retries it on another connection if one
// turns out to be broken.
func (d *database) Run(ctx context.Context, fn func(c store.Conn) error) error {
	for tries := 0; ; tries++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.stopped.Load() {
			return bloom.ErrUnavailable
		}
		err := fn(reader{d.reads})
		if err != nil && tries < readTries && ctx.Err() == nil && isGone(err) {
			continue
		}
		return d.fail(err)
	}
}

// readTries limits the broken connections that one read may meet: after a restart of
// the server, all connections of the pool are broken.
const readTries = 10
