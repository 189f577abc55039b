package app

import (
	"log/slog"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/maintenance"
)

// NewControlPlane is what a server reads its workers from.
func NewControlPlane(cfg config.Server) (maintenance.ControlPlane, error) {
	return newControlPlane(cfg, slog.New(slog.DiscardHandler))
}
