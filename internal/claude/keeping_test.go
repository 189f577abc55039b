package claude_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
)

// stopped runs a turn that succeeds and is stopped for the cause while its transcript is
// uploaded.
func (c *crew) stopped(b bloom.Task, cause error) (bloom.Run, *journal) {
	c.t.Helper()
	ctx, stop := context.WithCancelCause(c.t.Context())
	defer stop(nil)
	c.archive.onPut = func(ctx context.Context) error {
		stop(cause)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			c.t.Error("the upload goes on")
		}
		return context.Cause(ctx)
	}
	j := &journal{}
	run := c.harnesses[0].runner().Run(ctx, b, j.emit)
	c.archive.onPut = nil
	return run, j
}

func TestASuccessSurvivesTheEndOfItsUploads(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"the worker stops": bloom.ErrDraining, "the lease runs out here": bloom.ErrLeaseExpired} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 1, 1)
			c.harnesses[0].config.UploadGrace = time.Millisecond
			c.turn(0, "echo one > a")
			b := moving("sh: echo two >> a")
			b.Policy.Artifacts = []string{"a"}
			c.harnesses[0].config.Uploads, c.harnesses[0].config.MaxFiles, c.harnesses[0].config.MaxFileBytes = &taken{}, 9, 9
			run, j := c.stopped(b, cause)
			wantSuccess(t, run, "done")
			if run.Completion.Transcript != nil || run.Completion.Workspace != nil || !j.warned("transcript_not_kept") || !j.warned("workspace_not_kept") {
				t.Errorf("events %v", j.of(claude.EventWarning))
			}
			if said := fmt.Sprint(run.Completion.Metrics.Warnings); !strings.Contains(said, "artifact_skipped") {
				t.Errorf("warnings %q", said)
			}
			c.archive.complete(t, b, run)
			c.turn(0, "cat a > b")
			c.has(0, "b", "one\ntwo")
			if got := c.harnesses[0].conversation(); !strings.Contains(got, "echo two") {
				t.Errorf("the turn is lost:\n%s", got)
			}
		})
	}
}

func TestASuccessThatIsRunAgainDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"not accepted": bloom.ErrLeaseExpired, "lost": bloom.ErrLeaseGone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 1, 1)
			c.turn(0, "echo one > a")
			b := moving("sh: echo two >> a")
			c.stopped(b, cause)
			run, _ := c.harnesses[0].run(b)
			wantSuccess(t, run, "done")
			c.has(0, "a", "one\ntwo")
			if got := c.harnesses[0].conversation(); strings.Count(got, "sh: echo two") != 1 {
				t.Errorf("the conversation:\n%s", got)
			}
		})
	}
}

// stateless cannot say which version of a folder is stored.
type stateless struct{ claude.Workspaces }

func (stateless) State(context.Context, bloom.Task) (bloom.WorkspaceState, error) {
	return bloom.WorkspaceState{}, bloom.Internal(errors.New("no state"))
}

// An attempt that ends before it restores a missing folder leaves an empty one. The next attempt
// must not take it for the folder that only this worker had.
func TestAnEmptyFolderIsNotTheOneThatWasOnlyHere(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1, 1)
	c.turn(0, "echo one > a")
	c.stopped(moving("sh: echo two >> a"), bloom.ErrLeaseExpired)
	if err := os.RemoveAll(c.folder(0)); err != nil {
		t.Fatal(err)
	}
	h := c.harnesses[0]
	c.restart(0)
	h.config.Workspaces = stateless{c.folders}
	if run, _ := h.run(moving("sh: true")); run.Completion.Status == bloom.OutcomeSuccess {
		t.Fatal("it ran without knowing its folder")
	}
	c.restart(0)
	h.config.Workspaces = c.folders
	c.turn(0, "cat a > b")
	c.has(0, "b", "one")
}
