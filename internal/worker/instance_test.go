package worker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/worker"
)

func TestTwoRunningWorkersDoNotShareAFolder(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.logs.await(t, "registered")
	second := h.start(nil)
	if err := second.result(); !errors.Is(err, worker.ErrStateInUse) {
		t.Fatalf("got %v", err)
	}
}

func TestTwoRunningWorkersDoNotShareAName(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.logs.await(t, "registered")
	h.rt.Submit("ctx", "do it")
	h.runner.next(t)
	second := h.start(func(c *worker.Config) { c.StateDir = t.TempDir() })
	if err := second.result(); !errors.Is(err, bloom.ErrWorkerConflict) {
		t.Fatalf("got %v", err)
	}
}

func TestACopiedFolderIsAnotherInstance(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.logs.await(t, "registered")
	h.rt.Submit("ctx", "do it")
	run := h.runner.next(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(h.dir)); err != nil {
		t.Fatal(err)
	}
	second := h.start(func(c *worker.Config) { c.StateDir = filepath.Join(dir, "copy") })
	if err := second.result(); !errors.Is(err, bloom.ErrWorkerConflict) {
		t.Fatalf("got %v", err)
	}
	select {
	case <-run.ctx.Done():
		t.Fatal("the copy stopped the first one's work")
	default:
	}
}

func TestAMovedFolderIsTheSameInstance(t *testing.T) {
	h := newHarness(t)
	l := h.start(nil)
	h.logs.await(t, "registered")
	id := l.w.Status().InstanceID
	l.cancel()
	if err := l.result(); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(h.dir, moved); err != nil {
		t.Skip("the temporary folder spans file systems: ", err)
	}
	l = h.start(func(c *worker.Config) { c.StateDir = moved })
	h.rt.Submit("ctx", "do it")
	h.runner.next(t)
	if got := l.w.Status().InstanceID; got != id {
		t.Errorf("instance %s, was %s", got, id)
	}
}

func TestARestartedWorkerIsAcceptedAtOnce(t *testing.T) {
	h := newHarness(t)
	for range 3 {
		l := h.start(nil)
		task := h.rt.Submit("ctx", "do it")
		h.runner.next(t).end <- success("")
		h.until(task.ID, bloom.TaskCompleted)
		l.cancel()
		if err := l.result(); err != nil {
			t.Fatal(err)
		}
	}
}
