package memory

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"syscall"
)

// spareDisk is the free disk space that pushes and pulls leave, in bytes: on a full disk the
// plugin could not write.
const spareDisk = 16 << 20

// room fails if the disk has no room for size bytes of what.
func (p *Project) room(size int64, what string) error {
	free, err := p.FreeDisk(filepath.Dir(p.DB))
	if err != nil {
		return fmt.Errorf("the free space for %s: %w", p.DB, err)
	}
	if free < uint64(size)+spareDisk {
		return fmt.Errorf("%s needs %d bytes, but the disk of %s has room for %d: free disk space", what, size, p.DB, max(free, spareDisk)-spareDisk)
	}
	return nil
}

// maxStored is more than any memory has; sums of such sizes do not overflow.
const maxStored = 1 << 50

// expect returns the size of the download. It fails if the manifest has another size, or if the
// disk has too little free space. Manifests of other tools need not have a size.
func (p *Project) expect(there *local, m *Manifest, stored int64) (int64, error) {
	switch {
	case stored > maxStored:
		return 0, fmt.Errorf("the storage reports %d bytes for the stored memory, which no memory has: run bloom memory doctor", stored)
	case stored < 0:
		return 0, errors.New("the storage did not report the size of the stored memory")
	case m.Size > 0 && m.Size != stored:
		return 0, fmt.Errorf("the stored memory has %d bytes, but the manifest has %d: another tool may be pushing; try again, or run bloom memory doctor", stored, m.Size)
	}
	size := stored
	if there.exists && there.damage == nil { // the log of the transaction, and what the database grows by
		size += 2*max(stored, there.Size) - there.Size
	}
	return stored, p.room(size, fmt.Sprintf("a pull of %d bytes", stored))
}

// freeDisk is without limit on file systems that do not tell their size, such as some of FUSE.
func freeDisk(dir string) (uint64, error) {
	var disk syscall.Statfs_t
	err := syscall.Statfs(dir, &disk)
	if err == nil && disk.Blocks == 0 {
		return math.MaxUint64, nil
	}
	return disk.Bavail * uint64(disk.Bsize), err
}
