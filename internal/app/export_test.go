package app

import (
	"log/slog"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/maintenance"
)

// NewControlPlane returns the source from which a server reads its workers.
func NewControlPlane(cfg config.Server) (maintenance.ControlPlane, error) {
	return newControlPlane(cfg, slog.New(slog.DiscardHandler))
}
