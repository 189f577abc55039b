package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// File is a parsed config file: the value of each line in the form of a flag. It has no values
// when the file does not exist.
type File struct {
	Path   string
	values map[string][]string
	lines  map[string]int // where each key is; the first line is 1
}

// maxConfigFile bounds a config file, in bytes.
const maxConfigFile = 1 << 20

// ReadFile reads a TOML file of "key = value" lines. A list may be written as an
// array. An absent file is an error unless optional.
func ReadFile(path string, optional bool) (File, error) {
	raw, err := readSmall(path, maxConfigFile)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return File{Path: path}, nil
	}
	if err != nil {
		return File{}, fmt.Errorf("config file: %w", err)
	}
	var lines map[string]any
	if err := toml.Unmarshal(raw, &lines); err != nil {
		return File{}, fmt.Errorf("config file %s: %w", path, located(err))
	}
	f := File{Path: path, values: make(map[string][]string, len(lines)), lines: linesOf(raw)}
	for _, key := range sortedKeys(lines) {
		if f.values[key], err = flagForm(lines[key]); err != nil {
			return File{}, fmt.Errorf("%s: %s %w", f.at(key), key, err)
		}
	}
	return f, nil
}

// at returns where a key is, for error messages.
func (f File) at(key string) string {
	return fmt.Sprintf("config file %s, line %d", f.Path, f.lines[key])
}

// named returns a key and where it is.
func (f File) named(key string) string { return fmt.Sprintf("%s (%s)", key, f.at(key)) }

// linesOf returns the line of each key, which the decoder does not report. raw is valid TOML.
func linesOf(raw []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(raw)
	for p.NextExpression() {
		expression := p.Expression()
		keys := expression.Key()
		if !keys.Next() {
			continue
		}
		if key := string(keys.Node().Data); lines[key] == 0 {
			lines[key] = p.Shape(keys.Node().Raw).Start.Line
		}
		if expression.Kind != unstable.KeyValue {
			break // what follows belongs to a table
		}
	}
	return lines
}

// located adds the position to a syntax error, which the library reports separately.
func located(err error) error {
	var syntax *toml.DecodeError
	if !errors.As(err, &syntax) {
		return err
	}
	row, column := syntax.Position()
	return fmt.Errorf("line %d, column %d: %w", row, column, err)
}

func flagForm(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case int64:
		return []string{strconv.FormatInt(v, 10)}, nil
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, nil
	case []any:
		list := []string{}
		for _, item := range v {
			one, err := flagForm(item)
			if err != nil || len(one) != 1 {
				return nil, errors.New("must be a list of plain values")
			}
			list = append(list, one[0])
		}
		return list, nil
	case map[string]any:
		return nil, errors.New("is a table; settings must be at the top level, one per line")
	case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
		return nil, errors.New("is a date, which no setting accepts")
	}
	return nil, fmt.Errorf("has a value of a type (%T) that no setting accepts", v)
}

// DefaultPath returns the path of the config file when none is given.
func DefaultPath(env func(string) (string, bool)) string {
	if dir, ok := env("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "bloom", "config.toml")
	}
	home, ok := env("HOME")
	if !ok || home == "" {
		return "/etc/bloom/config.toml"
	}
	return filepath.Join(home, ".config", "bloom", "config.toml")
}

// DefaultDataDir returns the data directory when none is given.
func DefaultDataDir(env func(string) (string, bool)) string {
	if dir, ok := env("XDG_DATA_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "bloom")
	}
	home, ok := env("HOME")
	if !ok || home == "" {
		return "/var/lib/bloom"
	}
	return filepath.Join(home, ".local", "share", "bloom")
}
