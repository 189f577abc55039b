package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	lite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/bloom-runtime/bloom"
)

// explain returns an error whose message says what an operator should do. None of these
// failures but a damaged file needs a restart: the next write tries again.
func explain(err error) *bloom.Error {
	var ours *bloom.Error
	if errors.As(err, &ours) {
		return ours
	}
	var e *lite.Error
	if !errors.As(err, &e) {
		return bloom.Internal(err)
	}
	var message string
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		message = "The disk that holds the database is full; free some space and try again"
	case sqlite3.SQLITE_IOERR:
		message = "The disk that holds the database reports an error; nothing was changed"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		message = "The database cannot be written; check its folder's permissions"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		message = "The database is busy; try again shortly"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		message = "The database file is damaged; stop the server and restore a backup"
	default:
		return bloom.Internal(err)
	}
	return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Message: message, Cause: err}
}

// checkFile fails if the database's file was removed, replaced or truncated: writes to it
// would be acknowledged and lost. SQLite does not notice, because the file is open and
// its pages are cached.
func (d *database) checkFile() error {
	now, err := os.Stat(d.cfg.Path)
	switch {
	case err != nil:
	case !os.SameFile(now, d.file):
		err = fmt.Errorf("%s is another file than the one that was opened", d.cfg.Path)
	case now.Size() < d.file.Size() && !d.complete(now.Size()):
		err = fmt.Errorf("%s was truncated from %d to %d bytes", d.cfg.Path, d.file.Size(), now.Size())
	default:
		d.file = now
		return nil
	}
	return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Cause: err,
		Message: "The database file was removed, replaced or truncated while the server used it; stop the server and restore the file"}
}

// complete reports whether the file has all pages that its own header names: SQLite removed
// what followed them. The connection also counts pages that are only in the log so far.
func (d *database) complete(size int64) bool {
	header := make([]byte, 32)
	if _, err := d.main.ReadAt(header, 0); err != nil {
		return false
	}
	pageSize, pages := int64(binary.BigEndian.Uint16(header[16:])), int64(binary.BigEndian.Uint32(header[28:]))
	if pageSize == 1 {
		pageSize = 65536
	}
	return pages*pageSize <= size
}
