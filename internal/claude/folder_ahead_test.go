package claude_test

import (
	"testing"

	"github.com/bloom-runtime/bloom"
)

// aheadFolder returns a worker with a folder whose last files were not uploaded.
func aheadFolder(t *testing.T, workers int) *folderWorkers {
	t.Helper()
	c := newFolderWorkers(t, workers, 0)
	c.turn(0, "echo one > a")
	b := moving("sh: echo two >> a")
	run, _ := c.stopped(b, bloom.ErrLeaseGone)
	wantSuccess(t, run, "done")
	c.harnesses[0].accepted(b)
	return c
}

func TestWhatOnlyThisWorkerHasOutlastsAnAttemptThatDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, attempt := range map[string]func(c *folderWorkers){
		"it is cancelled":                 func(c *folderWorkers) { c.cancelled(0, "echo three > c", "c") },
		"the worker ends, too":            func(c *folderWorkers) { c.cancelled(0, "echo three > c", "c"); c.restart(0) },
		"its outcome is refused":          func(c *folderWorkers) { c.attempt(0, "echo three > c") },
		"it is not uploaded, and refused": func(c *folderWorkers) { c.stopped(moving("sh: echo three > c"), bloom.ErrLeaseGone) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := aheadFolder(t, 2)
			attempt(c)
			_, j := c.turn(0, "cat a > b")
			c.has(0, "b", "one\ntwo")
			if !j.warned("workspace_unfinished") {
				t.Errorf("nothing says that files of the attempt are left: %v", j.events)
			}
			if _, j = c.turn(0, "true"); j.warned("workspace_unfinished") {
				t.Error("it is said again when the folder is uploaded")
			}
			c.turn(1, "cat a > d")
			c.has(1, "d", "one\ntwo")
		})
	}
}

func TestTheReplacementOfWhatOnlyThisWorkerHasIsReported(t *testing.T) {
	t.Parallel()
	c := aheadFolder(t, 2)
	c.turn(1, "echo other >> a")
	_, j := c.turn(0, "cat a > b")
	c.has(0, "b", "one\nother")
	if !j.warned("workspace_replaced") {
		t.Errorf("events %v", j.events)
	}
}
