package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// missedCode is division_by_zero. An update raises it if a row is not as it was read,
// so that the commit that follows in the pipeline does not happen.
const missedCode = "22012"

// isGone reports whether the connection or the server failed, so that the operation
// may be retried on another connection.
func isGone(err error) bool {
	if errors.Is(err, store.ErrUnknown) {
		return true // whatever the check of the commit returned
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return isCut(err)
	}
	switch {
	case pg.SeverityUnlocalized == "FATAL", pg.SeverityUnlocalized == "PANIC":
		return true
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"):
		return true // connection exceptions; shutdown, crash, not yet up
	case pg.Code == "53300", pg.Code == "25006":
		return true // too many connections; a standby that is being promoted
	}
	return false
}

// IsStarting reports whether a connection failed because the server does not accept any yet:
// it is starting, or its machine is.
func IsStarting(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "57P") || pg.Code == "53300"
	}
	return err != nil && isCut(err)
}

func isCut(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || pgconn.SafeToRetry(err)
}

// isRace reports whether a transaction conflicted with another one and was rolled
// back.
func isRace(err error) bool {
	var pg *pgconn.PgError
	if errors.Is(err, store.ErrUnknown) || !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03":
		return true
	}
	return false
}

// isTaken reports whether another transaction changed a row or inserted a unique value
// after this one had read it, and this one was rolled back.
func isTaken(err error) bool {
	var pg *pgconn.PgError
	return !errors.Is(err, store.ErrUnknown) && errors.As(err, &pg) && (pg.Code == "23505" || pg.Code == missedCode)
}

// explain returns an error whose message says what an operator should do.
func explain(err error) *bloom.Error {
	var pg *pgconn.PgError
	var ours *bloom.Error
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.Is(err, store.ErrConflict):
		return unavailable("The database is busy; try again shortly", err)
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnreachable):
		return unavailable(bloom.ErrUnavailable.Message, err)
	case !errors.As(err, &pg) && (isGone(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return unavailable(bloom.ErrUnavailable.Message, err)
	case pg == nil:
		return bloom.Internal(err) // a bug, such as a panic or a row that cannot be scanned
	case pg.Code == "53100":
		return unavailable("The disk that holds the database is full; free some space and try again", err)
	case pg.Code == "53300":
		return unavailable("The database has no connection left; raise max_connections or lower the pool's size", err)
	case strings.HasPrefix(pg.Code, "53"):
		return unavailable("The database has run out of a resource; its log says which", err)
	case strings.HasPrefix(pg.Code, "57"), isGone(err):
		return unavailable(bloom.ErrUnavailable.Message, err)
	case pg.Code == "42501":
		return unavailable("The database user may not write these tables; check its grants", err)
	case isRace(err), isTaken(err):
		return unavailable("The database is busy; try again shortly", err)
	}
	return bloom.Internal(err)
}

func unavailable(message string, cause error) *bloom.Error {
	return &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeUnavailable, Message: message, Cause: cause}
}
