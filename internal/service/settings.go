package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func newKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails; see crypto/rand
	return hex.EncodeToString(raw[:])
}

// key returns a step that creates a key file, with a random key, the given key, or the key in from.
// The group of its user may read it. An empty file counts as missing.
func (c Config) key(path, from, group string) Step {
	return Step{Title: fmt.Sprintf("create a key in %s (mode 0640, root:%s)", path, group), do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, path)
		given := c.Key != "" && path == workerKey
		if old, err := os.ReadFile(where); err == nil && len(bytes.TrimSpace(old)) > 0 && !given {
			return unchanged, c.own(where, "root", group)
		}
		text, note := []byte(newKey()+"\n"), ""
		switch {
		case given:
			text, note = []byte(c.Key+"\n"), "the given key"
		case from != "":
			if same, err := os.ReadFile(filepath.Join(c.Root, from)); err == nil {
				text, note = same, "the same as in "+from
			} else {
				text, note = nil, "EMPTY: write the server's worker key into it, or install again with --worker-key-file"
			}
		}
		return note, errors.Join(put(where, text, 0o640), c.own(where, "root", group))
	}}
}

// environment returns a step that creates a role's environment file, or sets the given lines in an
// existing one.
func (c Config) environment(r role) Step {
	path := r.envFile()
	var shown []byte
	if len(c.Settings) == 0 { // which may contain secrets
		shown = c.settings(r)
	}
	return Step{Title: "write the settings " + path + " (mode 0600, root)", Content: shown, do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, path)
		text, note := c.settings(r), ""
		if old, err := os.ReadFile(where); err == nil {
			if text = c.merge(old); bytes.Equal(text, old) {
				return unchanged, os.Chmod(where, 0o600)
			}
			note = "changed the given settings"
		}
		return note, put(where, text, 0o600)
	}}
}

// settings returns a new environment file for the role.
func (c Config) settings(r role) []byte {
	keys := keyFolder
	if c.Init == Systemd {
		keys = "/run/credentials/" + r.base() + ".service"
	}
	if r.name == "worker" {
		if keys = workerKey; c.Init == Systemd {
			keys = "/run/credentials/bloom-worker.service/worker.key"
		}
	}
	text := bytes.ReplaceAll(content("env/"+r.base()+".env"), []byte("@KEYS@"), []byte(keys))
	return c.merge(text)
}

// merge sets lines NAME=VALUE in an environment file: it replaces the line of that name, even if it
// is commented out, or appends it.
func (c Config) merge(text []byte) []byte {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for _, s := range c.Settings {
		name, value, _ := strings.Cut(s, "=")
		s = name + "=" + c.quote(value)
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+"=") })
		if at < 0 {
			at = slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "# "+name+"=") })
		}
		if at < 0 {
			lines = append(lines, s)
			continue
		}
		lines[at] = s
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// quote returns a value as the init system reads it back unchanged. systemd removes backslashes,
// quotes and outer spaces from a plain value; our OpenRC script only a pair of quotes around it.
func (c Config) quote(value string) string {
	switch {
	case !strings.ContainsAny(value, "\\'\"") && strings.TrimSpace(value) == value:
		return value
	case c.Init == OpenRC || !strings.Contains(value, "'"):
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(value) + `"`
}
