// Package telemetry sets up the program's log, a server's metrics for Prometheus, and tracing.
package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/DeRuina/timberjack"
)

// The size at which a log file is rotated, and the number of files kept.
const (
	logFileMegabytes = 100
	logFilesKept     = 14
)

// LogConfig configures the log.
type LogConfig struct {
	Level  string // debug, info, warn or error
	Format string // text, when empty, or json
	// File receives the log instead of Writer, and is rotated.
	File   string
	Writer io.Writer
}

// Log is the log of one run of the program; nothing is global.
type Log struct {
	*slog.Logger
	level slog.LevelVar
	began string
	file  io.Closer // nil without one
}

// OpenLog opens the log. A file that cannot be written is an error.
func OpenLog(c LogConfig) (*Log, error) {
	l := &Log{began: c.Level}
	if err := l.SetLevel(""); err != nil {
		return nil, err
	}
	w := c.Writer
	if c.File != "" {
		file := &timberjack.Logger{Filename: c.File, MaxSize: logFileMegabytes, MaxBackups: logFilesKept, Compression: "gzip"}
		if _, err := file.Write(nil); err != nil {
			return nil, fmt.Errorf("log file: %w", err)
		}
		w, l.file = file, file
	}
	options := &slog.HandlerOptions{Level: &l.level}
	switch c.Format {
	case "json":
		l.Logger = slog.New(slog.NewJSONHandler(w, options))
	case "text", "":
		l.Logger = slog.New(slog.NewTextHandler(w, options))
	default:
		return nil, fmt.Errorf("log format %q: use text or json", c.Format)
	}
	return l, nil
}

// SetLevel changes the level; an empty one restores the initial level.
func (l *Log) SetLevel(level string) error {
	var parsed slog.Level
	if err := parsed.UnmarshalText([]byte(cmp.Or(level, l.began))); err != nil {
		return fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	l.level.Set(parsed)
	return nil
}

// Close closes the log; later records are lost.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
