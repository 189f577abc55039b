package claude

import (
	"io"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

// maxRecord limits how much is read of one of the worker's own files, in bytes.
const maxRecord = 1 << 20

// readRecord reads one of the worker's own small files. A task could have replaced it by
// a pipe, which would block, or by a device, which never ends.
func readRecord(path string) ([]byte, error) { return readRegular(path, maxRecord) }

// readLinked is like readRecord for a file of claude's, which may be a link to it.
func readLinked(path string, limit int64) ([]byte, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return readRegular(path, limit)
}

// readRegular reads at most limit bytes of a regular file.
func readRegular(path string, limit int64) ([]byte, error) {
	f, _, err := workspace.OpenRegularPath(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
