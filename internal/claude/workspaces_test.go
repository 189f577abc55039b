package claude_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
)

func TestAWorkingFolderMovesWithItsContext(t *testing.T) {
	t.Parallel()
	for mode, warm := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newFolderWorkers(t, 3, warm)
			c.turn(0, "echo one > a; mkdir d; echo x > d/run; chmod 750 d/run; ln -s d/run l; mkfifo p; ln -s /etc/passwd out")
			_, j := c.turn(0, "echo two > a")
			if len(j.of(claude.EventWorkspaceRestored)) > 0 || !j.warned("workspace_skipped") {
				t.Errorf("events %v", j.events)
			}
			_, j = c.turn(1, "cat a l > b; echo three > a; rm d/run l")
			if len(j.of(claude.EventWorkspaceRestored)) != 1 {
				t.Errorf("events %v", j.events)
			}
			c.has(1, "b", "two\nx")
			c.turn(2, "test -x d/run || echo gone > c")
			c.has(2, "a", "three")
			c.has(2, "c", "gone")
			c.turn(0, "echo four >> a")
			c.has(0, "a", "three\nfour")
			c.has(0, "d/run", "")
			if got := c.harnesses[0].conversation(); !strings.Contains(got, "echo one") || !strings.Contains(got, "echo four") {
				t.Errorf("the conversation did not move along:\n%s", got)
			}
			puts := c.folders.puts
			if run, _ := c.turn(0, "true"); run.Completion.Workspace != nil || c.folders.puts != puts {
				t.Error("a folder that has not changed was sent again")
			}
		})
	}
}

func TestChangesOfAnUncountedAttemptAreUndone(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 0)
	c.turn(0, "echo good > a")
	for name, attempt := range map[string]func(){
		"cancelled":     func() { c.cancelled(0, "echo bad > a; echo bad > extra", "extra") },
		"not delivered": func() { c.attempt(0, "echo bad > a; echo bad > extra") },
	} {
		attempt()
		_, j := c.turn(0, "cat a > seen; cat extra >> seen; true")
		c.has(0, "seen", "good")
		if len(j.of(claude.EventWorkspaceRestored)) != 1 {
			t.Errorf("%s: events %v", name, j.events)
		}
	}
}

func TestAFirstAttemptThatFailedLeavesAnEmptyFolder(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 0)
	c.attempt(0, "echo bad > extra")
	c.turn(0, "ls > seen")
	c.has(0, "seen", "seen")
}

func TestAFolderThatCouldNotBeUploadedStaysOnItsWorker(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 2, 0)
	c.turn(0, "echo one > a")
	b := moving("sh: echo two > a; truncate -s 600M big")
	run, j := c.harnesses[0].run(b)
	wantSuccess(t, run, "done")
	if run.Completion.Workspace != nil || !j.warned("workspace_not_kept") {
		t.Errorf("events %v", j.events)
	}
	c.archive.complete(t, b, run)
	c.harnesses[0].accepted(b)
	c.turn(0, "rm big; echo three >> a")
	c.turn(1, "true")
	c.has(1, "a", "two\nthree")
}

func TestAFolderThatCannotBeRestoredFailsTheAttempt(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 2, 0)
	c.turn(0, "echo one > a")
	c.turn(1, "echo two > a")
	frames, kept := maps.Clone(c.folders.frames), maps.Clone(c.folders.kept)
	for name, harm := range map[string]func(f *folders){
		"away": func(f *folders) { f.away = true },
		"gone": func(f *folders) { clear(f.frames) },
		"damaged": func(f *folders) {
			for url := range f.frames {
				f.frames[url] = []byte("no zstd")
			}
		},
		"another": func(f *folders) {
			u := f.kept["ctx"]
			u.SHA256 = strings.Repeat("0", 64)
			f.kept["ctx"] = u
		},
	} {
		c.folders.frames, c.folders.kept, c.folders.away = maps.Clone(frames), maps.Clone(kept), false
		harm(c.folders)
		run, _ := c.attempt(0, "echo bad > a")
		if wantError(t, run, bloom.ClassInternal); !run.Completion.Retryable {
			t.Errorf("%s: it is not tried again", name)
		}
		c.has(0, "a", "one")
		if left, err := filepath.Glob(c.folder(0) + ".*"); len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

func TestATaskWaitsForItsFolderDuringAnOutage(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 2, 0)
	c.turn(0, "echo one > a")
	c.folders.refuse = []string{"state", "state", "open", "open"}
	c.turn(1, "cat a > b")
	c.has(1, "b", "one")
	if left := c.folders.refuse; len(left) > 0 {
		t.Errorf("the outage was not met: %v", left)
	}
}

func TestAFolderIsForgottenWithItsContext(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 1)
	c.turn(0, "echo secret > a; mkdir d; touch d/x; chmod 500 d")
	if err := c.harnesses[0].runner().Forget("ctx")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.harnesses[0].config.Workdir); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAFolderThatDiffersFromItsRecordIsRestored(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(c *folderWorkers){
		"removed": func(c *folderWorkers) {
			if err := os.RemoveAll(c.folder(0)); err != nil {
				t.Error(err)
			}
		},
		"replaced": func(c *folderWorkers) { // as when a volume is mounted
			if err := errors.Join(os.Rename(c.folder(0), c.folder(0)+".was"), os.Mkdir(c.folder(0), 0o755)); err != nil {
				t.Error(err)
			}
		},
		"elsewhere": func(c *folderWorkers) {
			c.restart(0)
			c.harnesses[0].config.Workdir = t.TempDir()
		},
		"damaged by a power failure": func(c *folderWorkers) {
			c.restart(0)
			if err := os.Truncate(filepath.Join(c.folder(0), "a"), 0); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFolderWorkers(t, 1, 0)
			c.turn(0, "echo one > a")
			harm(c)
			_, j := c.turn(0, "cat a > b")
			if len(j.of(claude.EventWorkspaceRestored)) != 1 {
				t.Errorf("events %v", j.events)
			}
			c.has(0, "b", "one")
		})
	}
}

func TestAFolderThatARestartLeftAsItWasIsNotDownloaded(t *testing.T) {
	t.Parallel()
	c := newFolderWorkers(t, 1, 0)
	c.turn(0, "echo '*.log' > .bloomignore; echo one > a.log; mkdir d; ln -s d l; mkfifo p")
	c.restart(0)
	_, j := c.turn(0, "cat a.log > b")
	if len(j.of(claude.EventWorkspaceRestored)) != 0 {
		t.Errorf("events %v", j.events)
	}
	c.has(0, "b", "one")
}
