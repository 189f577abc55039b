package claude_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
)

// folders is the server's part of moving working folders, in memory.
type folders struct {
	mu     sync.Mutex
	frames map[string][]byte
	kept   map[string]bloom.WorkspaceUpdate // by context
	away   bool
	refuse []string // calls that fail and may succeed later
	puts   int
	onlyOn string // the worker that alone has the folder
	cut    int    // so many connections break while a folder is sent, each at another byte
	onOpen func() // called once, before a folder is sent
}

// refused returns an error if the call is the next one to fail.
func (f *folders) refused(call string) error {
	if len(f.refuse) == 0 || f.refuse[0] != call {
		return nil
	}
	f.refuse = f.refuse[1:]
	return fmt.Errorf("%w: refused", claude.ErrUnavailable)
}

func (f *folders) State(_ context.Context, task bloom.Task) (bloom.WorkspaceState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return bloom.WorkspaceState{}, errAway
	}
	if err := f.refused("state"); err != nil {
		return bloom.WorkspaceState{}, err
	}
	u := f.kept[task.ContextID]
	return bloom.WorkspaceState{Size: u.Size, SHA256: u.SHA256, OnlyOn: f.onlyOn}, nil
}

func (f *folders) Open(_ context.Context, task bloom.Task) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refused("open"); err != nil {
		return nil, err
	}
	if f.onOpen != nil {
		f.onOpen()
		f.onOpen = nil
	}
	var all []byte
	for _, p := range f.kept[task.ContextID].Parts {
		frame, ok := f.frames[p.URL]
		if !ok {
			return nil, errors.New("a part is gone")
		}
		all = append(all, frame...)
	}
	if f.cut > 0 {
		all = all[:len(all)/(f.cut+1)]
		f.cut--
		return io.NopCloser(io.MultiReader(bytes.NewReader(all), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
	}
	return io.NopCloser(bytes.NewReader(all)), nil
}

func (f *folders) Put(_ context.Context, _ bloom.Task, frame []byte) (bloom.TranscriptPart, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return bloom.TranscriptPart{}, errAway
	}
	f.puts++
	url := fmt.Sprint("file:", f.puts)
	f.frames[url] = bytes.Clone(frame)
	return bloom.TranscriptPart{URL: url, Size: int64(len(frame))}, nil
}

// folderWorkers are workers whose contexts' folders move, with a model that runs the prompt in a shell.
type folderWorkers struct {
	t         *testing.T
	archive   *archive
	folders   *folders
	harnesses []*harness
}

func newFolderWorkers(t *testing.T, n, warm int) *folderWorkers {
	t.Helper()
	c := &folderWorkers{t: t, folders: &folders{frames: map[string][]byte{}, kept: map[string]bloom.WorkspaceUpdate{}}}
	c.archive, c.harnesses = fleet(t, n, warm, inShell)
	for _, h := range c.harnesses {
		h.config.Workspaces, h.config.AllowedTools = c.folders, []string{"Bash"}
	}
	return c
}

func moving(prompt string) bloom.Task {
	b := task(prompt)
	b.Policy.Workspace = bloom.WorkspaceContext
	return b
}

// attempt runs a command in the context's folder on a worker; its completion is not
// delivered.
func (c *folderWorkers) attempt(worker int, command string) (attempt.Run, *journal) {
	c.t.Helper()
	return c.harnesses[worker].run(moving("sh: " + command))
}

// cancelled runs a command in the context's folder, and cancels the task when the command has
// written to the file.
func (c *folderWorkers) cancelled(worker int, command, file string) {
	c.t.Helper()
	ctx, cancel := context.WithCancelCause(c.t.Context())
	defer cancel(nil)
	runner, done := c.harnesses[worker].runner(), make(chan attempt.Run)
	go func() { done <- runner.Run(ctx, moving("sh: "+command+"; sleep 600"), nil) }()
	waitForFile(c.t, filepath.Join(c.folder(worker), file))
	cancel(attempt.ErrCancelled)
	wantError(c.t, <-done, bloom.ClassCancelled)
}

// turn is attempt with the completion delivered.
func (c *folderWorkers) turn(worker int, command string) (attempt.Run, *journal) {
	c.t.Helper()
	b := moving("sh: " + command)
	run, j := c.harnesses[worker].run(b)
	wantSuccess(c.t, run, "done")
	c.archive.complete(c.t, b, run)
	c.harnesses[worker].accepted(b)
	if u := run.Completion.Workspace; u != nil {
		c.folders.mu.Lock()
		defer c.folders.mu.Unlock()
		if c.folders.kept["ctx"].SHA256 != u.After {
			c.t.Errorf("the folder does not go on from what is kept: %+v", u)
		}
		c.folders.kept["ctx"] = *u
	}
	return run, j
}

// restart ends a worker's runner and has the next task start another, as after a kill.
func (c *folderWorkers) restart(worker int) {
	c.t.Helper()
	h := c.harnesses[worker]
	h.runner().Close()
	h.made = nil
}

// folder is the context's folder on a worker.
func (c *folderWorkers) folder(worker int) string {
	c.t.Helper()
	sum := sha256.Sum256([]byte("ctx"))
	return filepath.Join(c.harnesses[worker].config.Workdir, "ctx-"+hex.EncodeToString(sum[:8]))
}

// has fails unless the context's folder on the worker has the file with the content; an
// empty content is none.
func (c *folderWorkers) has(worker int, name, content string) {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.folder(worker), name))
	if got := strings.TrimSpace(string(raw)); got != content || content != "" && err != nil {
		c.t.Errorf("%s on worker %d is %q (%v), want %q", name, worker, got, err, content)
	}
}
