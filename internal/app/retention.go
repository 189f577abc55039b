package app

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// Old counts what a server with this retention would remove. It removes nothing, and may run while
// a server does.
func Old(ctx context.Context, dataDir, databaseURL string, keep bloom.Keep) (bloom.Removed, error) {
	if databaseURL != "" {
		return postgres.Old(ctx, databaseURL, keep)
	}
	path, err := database(dataDir)
	if err != nil {
		return bloom.Removed{}, err
	}
	return sqlite.Old(ctx, path, keep, bloom.Millis(bloom.SystemClock{}.Now()))
}
