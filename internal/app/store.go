package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// OpenStore opens the database in a data folder that no server uses, for what
// is done to a store without one. The caller closes it.
func OpenStore(ctx context.Context, dataDir string) (bloom.Store, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dataDir, DatabaseFile)})
}
