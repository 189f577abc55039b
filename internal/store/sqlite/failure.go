package sqlite

import (
	"errors"

	lite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/bloom-runtime/bloom"
)

// explain returns an error whose message tells an operator what to do. None of these
// failures but a damaged file needs a restart: the next write tries again.
func explain(err error) *bloom.Error {
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
