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
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// stopped runs a turn that succeeds and is stopped for the cause while its transcript is
// uploaded.
func (c *folderWorkers) stopped(b bloom.Task, cause error) (attempt.Run, *journal) {
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
	for name, cause := range map[string]error{"the worker stops": attempt.ErrDraining, "the lease runs out here": attempt.ErrLeaseGone, "the task is cancelled": attempt.ErrCancelled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFolderWorkers(t, 1, 1)
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
			c.restart(0) // the outcome is accepted after the worker has been started again
			c.harnesses[0].accepted(b)
			c.turn(0, "cat a > b")
			c.has(0, "b", "one\ntwo")
			if got := c.harnesses[0].conversation(); !strings.Contains(got, "echo two") {
				t.Errorf("the turn is lost:\n%s", got)
			}
		})
	}
}

func TestASuccessThatWasNotAcceptedDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFolderWorkers(t, 1, 1)
			c.turn(0, "echo one > a")
			b := moving("sh: echo two >> a")
			c.stopped(b, attempt.ErrLeaseGone)
			if restarted {
				c.restart(0)
			}
			c.turn(0, "cat a > b")
			c.has(0, "b", "one")
			if got := c.harnesses[0].conversation(); strings.Contains(got, "echo two") {
				t.Errorf("the conversation:\n%s", got)
			}
			b.LeaseID = new("another")
			run, _ := c.harnesses[0].run(b)
			wantSuccess(t, run, "done")
			c.has(0, "a", "one\ntwo")
			if got := c.harnesses[0].conversation(); strings.Count(got, "sh: echo two") != 1 {
				t.Errorf("the conversation:\n%s", got)
			}
		})
	}
}

// Two turns are only here, and the outcome of the second is not accepted.
func TestOnlyTheTurnThatWasNotAcceptedIsRemoved(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		for name, uploaded := range map[string]bool{"uploaded": true, "not uploaded": false} {
			t.Run(mode+", "+name, func(t *testing.T) {
				t.Parallel()
				a, harnesses := fleet(t, 1, warm, standin.Sequence(standin.Reply{Text: "noted"}))
				h := harnesses[0]
				h.turn(a, "first green")
				a.away = true
				h.turn(a, "second blue")
				a.away = !uploaded
				b := task("third red")
				h.run(b)
				a.away = false
				b.LeaseID = new("another")
				run, _ := h.run(b)
				wantSuccess(t, run, "noted")
				a.complete(t, b, run)
				got := h.conversation()
				for _, word := range []string{"first green", "second blue", "third red"} {
					if n := strings.Count(got, word); n != 1 {
						t.Errorf("%q is %d times in the conversation:\n%s", word, n, got)
					}
				}
			})
		}
	}
}

func TestATaskWaitsForTheOutcomeOfTheLastOne(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 1)
	c.turn(0, "echo one > a")
	b, asked, settled := moving("sh: echo two >> a"), make(chan string, 9), make(chan struct{})
	c.stopped(b, attempt.ErrLeaseGone)
	c.harnesses[0].config.AwaitOutcome = func(ctx context.Context, lease string) error {
		asked <- lease
		select {
		case <-settled:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	runner, ran := c.harnesses[0].runner(), make(chan attempt.Run)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { ran <- runner.Run(ctx, moving("sh: true"), nil) }()
	<-asked
	cancel(attempt.ErrCancelled)
	wantError(t, <-ran, bloom.ClassCancelled)
	c.harnesses[0].config.AwaitOutcome = func(context.Context, string) error { return errors.New("not delivered") }
	if run := c.harnesses[0].runner().Run(t.Context(), moving("sh: true"), nil); run.Release == nil || run.Release.NotBefore <= timing.Millis(time.Now()) ||
		run.Completion.ErrorClass != bloom.ClassInternal {
		t.Errorf("without the outcome it ends with %+v, %+v", run.Release, run.Completion)
	}
	go func() { ran <- runner.Run(t.Context(), moving("sh: cat a > b"), nil) }()
	if lease := <-asked; lease != *b.LeaseID {
		t.Errorf("it waits for %s", lease)
	}
	if err := runner.Accepted("ctx", *b.LeaseID); err != nil {
		t.Error(err)
	}
	close(settled)
	wantSuccess(t, <-ran, "done")
	c.has(0, "b", "one\ntwo")
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
	c := newFolderWorkers(t, 1, 1)
	c.turn(0, "echo one > a")
	b := moving("sh: echo two >> a")
	c.stopped(b, attempt.ErrLeaseGone)
	c.harnesses[0].accepted(b)
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
