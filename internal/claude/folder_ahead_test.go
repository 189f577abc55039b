package claude_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/attempt"
)

// aheadFolder returns a worker with a folder whose last files were not uploaded.
func aheadFolder(t *testing.T, workers int) *folderWorkers {
	t.Helper()
	c := newFolderWorkers(t, workers, 0)
	c.turn(0, "echo one > a")
	b := moving("sh: echo two >> a")
	run, _ := c.stopped(b, attempt.ErrLeaseGone)
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
		"it is not uploaded, and refused": func(c *folderWorkers) { c.stopped(moving("sh: echo three > c"), attempt.ErrLeaseGone) },
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
	kept, err := filepath.Glob(c.folder(0) + ".kept-*")
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	if raw, err := os.ReadFile(filepath.Join(kept[0], "a")); string(raw) != "one\ntwo\n" {
		t.Errorf("what only this worker had is %q, %v", raw, err)
	}
	if err := c.harnesses[0].runner().Forget("ctx")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(c.folder(0) + "*"); len(left) > 0 {
		t.Errorf("left of the forgotten context: %v, %v", left, err)
	}
}

// A folder whose files only its worker has is missing when the next task begins, and the outcome
// of the last one is not delivered yet.
func TestAFolderThatVanishesBeforeItsOutcomeIsDeliveredIsNotTakenForAnEmptyOne(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 0)
	c.turn(0, "echo one > a")
	undelivered := false
	c.harnesses[0].config.AwaitOutcome = func(context.Context, string) error {
		if undelivered {
			return errAway
		}
		return nil
	}
	b := moving("sh: echo two >> a")
	run, _ := c.stopped(b, attempt.ErrLeaseGone)
	wantSuccess(t, run, "done")
	undelivered = true
	if err := os.RemoveAll(c.folder(0)); err != nil {
		t.Fatal(err)
	}
	if run, _ = c.attempt(0, "true"); run.Release == nil {
		t.Fatalf("a task does not wait for the outcome: %s", show(run))
	}
	undelivered = false
	c.harnesses[0].accepted(b)
	_, j := c.turn(0, "cat a > b")
	c.has(0, "b", "one")
	if !j.warned("workspace_lost") {
		t.Errorf("nothing says that files are lost: %v", j.events)
	}
}

// The last task's folder could not be uploaded, and its worker is offline.
func TestATaskSaysThatItsFolderIsOnAnotherWorker(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 0)
	c.folders.onlyOn = "one"
	run, j := c.turn(0, "true")
	if !j.warned("workspace_missing") {
		t.Errorf("nothing says that the folder is empty: %v", j.events)
	}
	if run.Completion.Workspace != nil {
		t.Errorf("an empty folder is saved: %s", show(run))
	}
}

func TestABrokenDownloadOfAFolderCostsNoAttempt(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 2, 0)
	c.turn(0, "echo one > a")
	c.folders.cut = 3
	c.turn(1, "cat a > b")
	c.has(1, "b", "one")
}

// Another task of the context ends between a task's look at the server's version and its download.
func TestAVersionThatChangesDuringTheDownloadIsUsed(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 2, 0)
	c.turn(0, "echo first > a")
	folder, talk := c.folders.kept["ctx"], c.archive.kept["ctx"]
	c.turn(0, "echo second >> a")
	newFolder, newTalk := c.folders.kept["ctx"], c.archive.kept["ctx"]
	c.folders.kept["ctx"], c.archive.kept["ctx"] = folder, talk
	c.folders.onOpen = func() { c.folders.kept["ctx"] = newFolder }
	c.archive.onOpen = func() { c.archive.kept["ctx"] = newTalk }
	_, j := c.turn(1, "cat a > b")
	c.has(1, "b", "first\nsecond")
	if got := c.harnesses[1].conversation(); !strings.Contains(got, "echo second") || j.warned("transcript_damaged") {
		t.Errorf("the conversation lacks its last turn:\n%s", got)
	}
}
