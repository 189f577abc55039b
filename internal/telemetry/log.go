// Package telemetry sets up what the program says about itself: its log, and a
// server's figures for Prometheus. It knows nothing of how they come about.
package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/DeRuina/timberjack"
)

// What a log file is rotated at, and how many are kept.
const (
	logFileMegabytes = 100
	logFilesKept     = 14
)

// LogConfig says what is logged, how, and where to.
type LogConfig struct {
	Level  string // debug, info, warn or error
	Format string // text, when empty, or json
	// File gets the log in place of Writer, and is rotated.
	File   string
	Writer io.Writer
}

// Log is the program's log. Every start has its own; nothing is global.
type Log struct {
	*slog.Logger
	level slog.LevelVar
	began string
	file  io.Closer // nil without one
}

// OpenLog begins the log. A file that cannot be written is an error.
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

// SetLevel changes the level from now on; an empty one is that of the start.
func (l *Log) SetLevel(level string) error {
	var parsed slog.Level
	if err := parsed.UnmarshalText([]byte(cmp.Or(level, l.began))); err != nil {
		return fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	l.level.Set(parsed)
	return nil
}

// Close ends the log; what is logged afterwards is lost.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
