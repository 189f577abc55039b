package memory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	server := miniotest.Shared(t)
	for name, test := range map[string]func(*testing.T, objects.Config){
		"a snapshot that the disk has no room for is not taken":     fullDisk,
		"a pull that the disk has no room for is not begun":         noRoomForLog,
		"a cancelled pull leaves no backup":                         cancelledPull,
		"old backups go also when the pull fails":                   oldBackups,
		"what a killed push or pull left is removed by a later one": oldLeftovers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server.Bucket())
		})
	}
}

// disk has this much free space.
func disk(free *uint64) func(*memory.Config) {
	return func(c *memory.Config) { c.FreeDisk = func(string) (uint64, error) { return *free, nil } }
}

func fullDisk(t *testing.T, c objects.Config) {
	free := uint64(16 << 20)
	one := newNode(t, open(t, c), "one", disk(&free))
	one.write("a")
	if _, err := one.Push(t.Context()); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a push: %v", err)
	}
	if err := memory.NewMeter(one.Project).Measure(t.Context()); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a measurement: %v", err)
	}
	free = 1 << 30
	one.push()
}

func noRoomForLog(t *testing.T, c objects.Config) {
	free := uint64(1 << 30)
	b := open(t, c)
	one, two := newNode(t, b, "one"), newNode(t, b, "two", disk(&free))
	one.fill()
	size := one.push().Size
	two.write("mine")
	free = 16<<20 + uint64(size) // for the download alone
	if _, err := two.Pull(t.Context()); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a pull: %v", err)
	}
	two.want("mine")
	if left := two.folders(); len(left) != 0 {
		t.Errorf("backups %q", left)
	}
	free += 2 * uint64(size)
	two.pull()
}

func cancelledPull(t *testing.T, c objects.Config) {
	b := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	one, two := newNode(t, b, "one"), newNode(t, b, "two", at("pages put in place", cancel))
	one.fill()
	one.push()
	two.write("mine")
	if _, err := two.Pull(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("a pull: %v", err)
	}
	two.want("mine")
	if left := two.folders(); len(left) != 0 {
		t.Errorf("backups %q", left)
	}
	two.pull()
}

func oldBackups(t *testing.T, c objects.Config) {
	now, free := time.Now(), uint64(1<<30)
	b := open(t, c)
	one := newNode(t, b, "one")
	two := newNode(t, b, "two", disk(&free), func(c *memory.Config) { c.Now = func() time.Time { return now } })
	for i := range 3 {
		one.write(fmt.Sprint(i))
		one.push()
		two.write("local")
		two.pull()
		now = now.Add(time.Second)
	}
	now, free = now.Add(memory.DefaultBackupAge+time.Hour), 0
	if _, err := two.Pull(t.Context()); err == nil {
		t.Fatal("pulled on a full disk")
	}
	if left := two.folders(); len(left) != 1 {
		t.Errorf("backups %q", left)
	}
}

func oldLeftovers(t *testing.T, c objects.Config) {
	one := newNode(t, open(t, c), "one")
	one.write("a")
	left := func(name string, age time.Duration) string {
		path := filepath.Join(filepath.Dir(one.DB), name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := left(".bloom-memory-pull-1-2.tmp", memory.DefaultLockTTL+memory.DefaultLockGrace+time.Hour)
	used := left(".bloom-memory-snapshot-1-3.tmp", time.Hour)
	one.push()
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", old, err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Error(err)
	}
}
