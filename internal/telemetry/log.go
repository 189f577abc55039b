// Package telemetry sets up what the program says about itself: its log, and a
// server's figures for Prometheus. It knows nothing of how they come about.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger makes the program's logger: level is debug, info, warn or error,
// format is text or json. Every start names its own logger; nothing is global.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text", "":
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: use text or json", format)
}
