package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// removeUnless removes the file unless others match the pattern; an empty pattern matches none.
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

// symlink creates a link. Anything else at that path is an error.
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
