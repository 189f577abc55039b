package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// OpenStore opens the database in a data directory that no server uses, for operations without a
// server. The caller closes it.
func OpenStore(ctx context.Context, dataDir string) (contract.Store, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dataDir, DatabaseFile), Committed: nil, Transcripts: false})
}

// OpenSealer opens the keys that encrypt secrets in the database.
func OpenSealer(c config.Sealing, dataDir string) (*auth.Sealer, error) {
	if c.SecretKey == "" {
		return auth.OpenSealer(cmp.Or(c.SecretKeyFile, filepath.Join(dataDir, auth.SealKeyFile)))
	}
	s, err := auth.NewSealer(string(c.SecretKey))
	if err != nil {
		return nil, ConfigError{fmt.Errorf("BLOOM_SECRET_KEY: %w", err)}
	}
	return s, nil
}

// Fresh reports whether OpenDatabase would create the database because the data directory has none. A
// missing folder is an error, because its name is probably mistyped.
func Fresh(dataDir, databaseURL string) (bool, error) {
	if databaseURL != "" {
		return false, nil
	}
	if _, err := os.Stat(dataDir); errors.Is(err, fs.ErrNotExist) {
		return false, ConfigError{fmt.Errorf("--data-dir: the folder %s does not exist; use the server's folder, or create it first", dataDir)}
	}
	_, err := os.Stat(filepath.Join(dataDir, DatabaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// OpenDatabase opens the PostgreSQL database at the URL, or without one the database in a data
// folder that no server uses. The caller closes it.
func OpenDatabase(ctx context.Context, dataDir, databaseURL string) (contract.Store, error) {
	if databaseURL == "" {
		return OpenStore(ctx, dataDir)
	}
	store, err := postgres.Open(ctx, postgres.Config{URL: databaseURL, Committed: nil, Transcripts: false})
	if err != nil {
		return nil, ofDatabase(err)
	}
	return store, nil
}

// databasePatience is how long a starting server waits for a PostgreSQL server that does not accept
// connections yet, for example because the whole machine was restarted.
const databasePatience = time.Minute

// awaitDatabase repeats open until the PostgreSQL server accepts connections.
func awaitDatabase(ctx context.Context, log *slog.Logger, open func() error) error {
	waits := retry.Policy{First: 500 * time.Millisecond, Max: 5 * time.Second}.Waits()
	for began := time.Now(); ; {
		err := open()
		left := databasePatience - time.Since(began)
		if !postgres.IsStarting(err) || left <= 0 {
			return err
		}
		wait := waits()
		log.WarnContext(ctx, "waiting for PostgreSQL, which does not accept connections yet", "retry_in", wait, "give_up_in", left.Round(time.Second), "error", err)
		if retry.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// ofDatabase names the setting that an error of PostgreSQL's comes from.
func ofDatabase(err error) error {
	named := fmt.Errorf("--database-url (or DATABASE_URL): %w", err)
	if errors.Is(err, postgres.ErrAddress) || errors.Is(err, schema.ErrEarlier) {
		return ConfigError{named}
	}
	return named
}
