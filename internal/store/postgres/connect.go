package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
)

// minVersion is PostgreSQL 15 as the server numbers it.
const minVersion = 150000

// lookUps is how many connections ask what became of commits.
const lookUps = 2

// readSettings of every connection. Plans that never scan what grows are right
// from the first row on, while statistics come only with the first ANALYZE; and
// the price put on a scan must not set the compiler going.
var readSettings = map[string]string{
	"application_name": "bloom",
	"jit":              "off",
	"enable_seqscan":   "off",
	// Lists want their index's order, not all that it matches.
	"enable_bitmapscan": "off",
	// Whatever the database or the role is configured to do.
	"client_encoding":               "UTF8",
	"default_transaction_isolation": "read committed",
}

// hotSettings are those of connections that write: few statements, always the
// same, each planned once as a walk along indexes.
var hotSettings = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	// A server that is frozen in the midst of a transaction must hold up others for
	// less than their patience. No row is waited for; what else may be locked (a
	// table, a value that somebody is about to insert) is waited for briefly, then
	// the operations are run again one by one.
	"idle_in_transaction_session_timeout": "5000",
	"lock_timeout":                        "100",
}

// ErrAddress says that a connection string cannot be read.
var ErrAddress = errors.New("postgresql: DATABASE_URL is not a PostgreSQL address that can be read")

// parse reads a connection string. Its error never quotes it: it holds a
// password.
func parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, ErrAddress
	}
	addSettings(cfg, readSettings)
	cfg.DialFunc = dial
	return cfg, nil
}

// addSettings leaves alone what the connection string says itself.
func addSettings(cfg *pgx.ConnConfig, settings map[string]string) {
	for name, value := range settings {
		if _, chosen := cfg.RuntimeParams[name]; !chosen {
			cfg.RuntimeParams[name] = value
		}
	}
}

// Connect is a connection of its own for who fills a database. The caller closes it.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// ErrHalfImported says that an import into the database has begun and not ended.
var ErrHalfImported = errors.New("postgresql: an import into this database was broken off; " +
	"run the same bloom migrate import again to finish it, or drop the database")

// checkWhole refuses a database that an import is still filling.
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

// session is what distinguishes a connection of the hot pool from all others.
type session struct {
	token int64     // a lock that the server holds for it until its process has ended
	at    time.Time // when it was connected
}

// sessionKey is where a connection keeps it.
const sessionKey = "session"

// noteSession takes a lock that nobody else has, by which one can tell later, also
// without rights to look at processes, whether the server's one has ended.
func noteSession(ctx context.Context, c *pgx.Conn) error {
	is := session{at: time.Now()}
	for mine := false; !mine; {
		is.token = rand.Int64()
		if err := c.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, is.token).Scan(&mine); err != nil {
			return err
		}
	}
	c.PgConn().CustomData()[sessionKey] = is
	return nil
}

func sessionOf(c *pgx.Conn) session {
	is, _ := c.PgConn().CustomData()[sessionKey].(session)
	return is
}

// checkVersion refuses a server that lacks what the store relies on.
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
		return fmt.Errorf("%w (it was told to ignore what it does not support)", ErrPooler)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("postgresql: the database's encoding is %s, bloom needs UTF8; create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return supported(number, version)
}

// ErrPooler says that a pooler answers in place of the server.
var ErrPooler = errors.New("postgresql: the address is that of a pooler such as PgBouncer, which does not keep a connection's settings and locks; " +
	"name the server itself, bloom pools its connections")

// cannotConnect recognises a pooler by its refusal of the settings that a connection of
// this store begins with.
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

// warnUnsafe says so when the server may forget what it has acknowledged.
func (d *database) warnUnsafe(ctx context.Context) {
	for _, name := range []string{"fsync", "synchronous_commit"} {
		var value string
		if err := d.reads.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err == nil && strings.EqualFold(value, "off") {
			d.cfg.Logger.Warn("postgresql may lose acknowledged writes with the power", "setting", name, "value", value)
		}
	}
}

// Run runs fn on the readers' pool. A read that met a dead connection is run again on
// another.
func (d *database) Run(ctx context.Context, fn func(c sqldb.Conn) error) error {
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

// readTries bounds how many dead connections one read may meet: after a restart
// of the server all of the pool's are dead.
const readTries = 10
