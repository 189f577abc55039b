package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// Step is one step of an installation.
type Step struct {
	// Title describes the step.
	Title string
	// Content is the new content of a file, unless it contains a secret.
	Content []byte
	do      func(ctx context.Context) (note string, err error) // nil: a manual step
}

// Do executes the step and returns its title, with a note if there was nothing to do. Repeating it
// changes nothing.
func (s Step) Do(ctx context.Context) (string, error) {
	if s.do == nil {
		return s.Title, nil
	}
	note, err := s.do(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Title, err)
	}
	if note != "" {
		return s.Title + " (" + note + ")", nil
	}
	return s.Title, nil
}

// unchanged is the note of a step with nothing to do.
const unchanged = "already there"

// dedupe removes repeated steps.
func dedupe(steps []Step) []Step {
	seen := map[string]bool{}
	return slices.DeleteFunc(steps, func(s Step) bool {
		twice := seen[s.Title]
		seen[s.Title] = true
		return twice
	})
}

// run returns a step that runs a command. With mayFail a failure is only noted.
func run(mayFail bool, command ...string) Step {
	return Step{Title: "run " + strings.Join(command, " "), do: func(ctx context.Context) (string, error) {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if err != nil && mayFail {
			return "failed: " + err.Error(), nil
		}
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
		}
		return "", nil
	}}
}

func (c Config) makeUser(r role) Step {
	if r.name == memory {
		return Step{Title: "find the user " + r.user, do: func(context.Context) (string, error) {
			_, err := user.Lookup(r.user)
			return "", err
		}}
	}
	return Step{Title: "create the system user " + r.user, do: func(ctx context.Context) (string, error) {
		if _, err := user.Lookup(r.user); err == nil {
			return unchanged, nil
		}
		home := "/var/lib/" + r.user
		commands := [][]string{{"useradd", "--system", "--user-group", "--home-dir", home, "--no-create-home", "--shell", "/usr/sbin/nologin", r.user}}
		if _, err := exec.LookPath("useradd"); err != nil { // Alpine's are BusyBox's
			commands = [][]string{{"addgroup", "-S", r.user}, {"adduser", "-S", "-D", "-H", "-h", home, "-s", "/sbin/nologin", "-G", r.user, r.user}}
		}
		for _, command := range commands {
			if _, err := run(false, command...).Do(ctx); err != nil {
				return "", err
			}
		}
		return "", nil
	}}
}

func (c Config) folder(path string, mode fs.FileMode, owner, group string) Step {
	return Step{Title: fmt.Sprintf("create the folder %s (mode %04o, %s:%s)", path, mode, owner, group), do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, path)
		_, err := os.Stat(where)
		if err := errors.Join(os.MkdirAll(where, mode), os.Chmod(where, mode), c.own(where, owner, group)); err != nil {
			return "", err
		}
		if err == nil {
			return unchanged, nil
		}
		return "", nil
	}}
}

// own changes the owner of a file, on this machine only: the users of an image are not known here.
func (c Config) own(path, owner, group string) error {
	if c.Root != "" {
		return nil
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return err
	}
	if group != "" {
		g, err := user.LookupGroup(group)
		if err != nil {
			return err
		}
		u.Gid = g.Gid
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return errors.Join(err1, err2, os.Chown(path, uid, gid))
}

// write returns a step that replaces one of our files.
func (c Config) write(path string, text []byte, mode fs.FileMode) Step {
	return Step{Title: "write " + path, Content: text, do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, path)
		if old, err := os.ReadFile(where); err == nil && bytes.Equal(old, text) {
			return unchanged, os.Chmod(where, mode)
		}
		return "", put(where, text, mode)
	}}
}

// put writes a file atomically. Only its owner can read it until it is complete.
func put(where string, text []byte, mode fs.FileMode) error {
	return errors.Join(os.MkdirAll(filepath.Dir(where), 0o755), durable.Replace(where, text), os.Chmod(where, mode))
}

func (c Config) remove(path string) Step {
	return Step{Title: "remove " + path, do: func(context.Context) (string, error) {
		err := os.Remove(filepath.Join(c.Root, path))
		if errors.Is(err, fs.ErrNotExist) {
			return "did not exist", nil
		}
		return "", err
	}}
}

// removeUnless keeps the file while there are others of a pattern, unless that is empty.
func (c Config) removeUnless(path, others string) Step {
	step := c.remove(path)
	if others == "" {
		return step
	}
	remove := step.do
	step.Title += " unless it is in use"
	step.do = func(ctx context.Context) (string, error) {
		if left, err := filepath.Glob(filepath.Join(c.Root, others)); err != nil || len(left) > 0 {
			return "kept", err
		}
		return remove(ctx)
	}
	return step
}

// symlink makes a link. What else has its name is an error.
func (c Config) symlink(path, to string) Step {
	return Step{Title: fmt.Sprintf("link %s to %s", path, to), do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, path)
		if at, err := os.Readlink(where); err == nil && at == to {
			return unchanged, nil
		}
		return "", errors.Join(os.MkdirAll(filepath.Dir(where), 0o755), os.Symlink(to, where))
	}}
}

// definition returns a step that writes the init system's definition of a role. The runtime also
// gets its socket, which has no effect until it is enabled.
func (c Config) definition(r role, program string) Step {
	paths := c.paths(r)
	if c.Init == OpenRC {
		return c.write(paths[0], bytes.ReplaceAll(content("openrc/bloom"), []byte("/usr/bin/bloom"), []byte(program)), 0o755)
	}
	step := c.write(paths[0], bytes.ReplaceAll(content("systemd/"+filepath.Base(paths[0])), []byte("/usr/bin/bloom"), []byte(program)), 0o644)
	for _, path := range paths[1:] {
		more := c.write(path, content("systemd/"+filepath.Base(path)), 0o644)
		first := step.do
		step.Title += " and " + path
		step.do = func(ctx context.Context) (string, error) {
			note, err := first(ctx)
			_, err2 := more.do(ctx)
			return note, errors.Join(err, err2)
		}
	}
	return step
}

func (c Config) copyProgram(to string) Step {
	return Step{Title: fmt.Sprintf("copy %s to %s", c.Program, to), do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, to)
		text, err := os.ReadFile(c.Program)
		if err != nil {
			return "", err
		}
		return "", put(where, text, 0o755)
	}}
}

// key returns a step that creates a key file, with a random key, the given key, or the key in from.
// The group of its user may read it.
func (c Config) key(path, from, group string) Step {
	return Step{Title: fmt.Sprintf("create a key in %s (mode 0640, root:%s)", path, group), do: func(context.Context) (string, error) {
		where := filepath.Join(c.Root, path)
		given := c.Key != "" && path == workerKey
		if _, err := os.Stat(where); err == nil && !given {
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
				text, note = nil, "EMPTY: write the server's worker key into it"
			}
		}
		return note, errors.Join(put(where, text, 0o640), c.own(where, "root", group))
	}}
}

func newKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails; see crypto/rand
	return hex.EncodeToString(raw[:])
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
			if text = merge(old, c.Settings); bytes.Equal(text, old) {
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
	return merge(text, c.Settings)
}

// merge sets lines NAME=VALUE in an environment file: it replaces the line of that name, even if it
// is commented out, or appends it.
func merge(text []byte, settings []string) []byte {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for _, s := range settings {
		name, _, _ := strings.Cut(s, "=")
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

// Print prints the steps without executing them.
func Print(w io.Writer, steps []Step) error {
	var out bytes.Buffer
	for _, s := range steps {
		fmt.Fprintln(&out, s.Title)
		for line := range strings.Lines(string(s.Content)) {
			out.WriteString("    " + line)
		}
	}
	_, err := out.WriteTo(w)
	return err
}
