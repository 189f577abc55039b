package memory

import (
	"path/filepath"
	"testing"
)

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
