package app

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Old counts what a server with this retention would remove. It removes nothing, and may run while
// a server does.
func Old(ctx context.Context, dataDir, databaseURL string, keep contract.Keep) (contract.Removed, error) {
	if databaseURL != "" {
		return postgres.Old(ctx, databaseURL, keep)
	}
	path, err := database(dataDir)
	if err != nil {
		return contract.Removed{}, err
	}
	return sqlite.Old(ctx, path, keep, timing.Millis(timing.System{}.Now()))
}
