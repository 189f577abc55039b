package memory

import (
	"math"
	"path/filepath"
	"testing"
)

// A storage that reports absurd sizes must not make the check of the free space overflow.
func TestAnAbsurdSizeIsRefused(t *testing.T) {
	t.Parallel()
	p := &Project{Config: Config{DB: filepath.Join(t.TempDir(), "memory.db"), FreeDisk: freeDisk}}
	for _, there := range []*local{{}, {Snapshot: Snapshot{Size: 4096}, exists: true}} {
		for _, size := range []int64{math.MaxInt64, math.MaxUint64/3 + 1, math.MinInt64} {
			if got, err := p.expect(there, &Manifest{}, size); err == nil {
				t.Errorf("%d bytes are expected of a memory of %d bytes", got, size)
			}
		}
	}
}

func TestAFileSystemOfUnknownSizeIsNotFull(t *testing.T) {
	t.Parallel()
	if free, err := freeDisk("/proc"); free < 1<<60 || err != nil { // it has 0 blocks
		t.Errorf("/proc: %d bytes free, %v", free, err)
	}
	if free, err := freeDisk(t.TempDir()); free == 0 || free > 1<<60 || err != nil {
		t.Errorf("a disk: %d bytes free, %v", free, err)
	}
	if _, err := freeDisk(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent folder has free space")
	}
}
