package app

import "testing"

func TestAFileSystemOfUnknownSizeIsNotLow(t *testing.T) {
	t.Parallel()
	if disk := diskOf("/proc"); disk != nil { // it has 0 blocks
		t.Errorf("/proc: %+v", disk)
	}
	if disk := diskOf(t.TempDir()); disk == nil || disk.Total == 0 {
		t.Errorf("a disk: %+v", disk)
	}
	if f := examineDisk("/proc"); f.Status != Doubtful {
		t.Errorf("%+v", f)
	}
}
