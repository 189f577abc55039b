package bloom

import (
	"errors"
	"fmt"
)

// Kind says what sort of failure an Error is. One place, in the HTTP adapter,
// maps kinds to status codes.
type Kind int

// The kinds of failure a caller can meet.
const (
	KindInternal     Kind = iota // our fault; the message is safe, the cause is only logged
	KindInvalid                  // the request itself is wrong
	KindUnauthorized             // no key, or one that nobody knows
	KindForbidden                // a known key whose role is too small
	KindNotFound
	KindConflict // the state does not allow it
	KindTooLarge
	KindRateLimited
	KindUnavailable // nobody can do it now; worth another try later
	KindUpstream    // a system behind us failed
)

// Codes are stable: programs may branch on them.
const (
	CodeInternal           = "internal"
	CodeInvalid            = "invalid_request"
	CodeUnauthorized       = "unauthorized"
	CodeNoCertificate      = "certificate_required" // the key counts only with a client certificate
	CodeForbidden          = "forbidden"
	CodeNotFound           = "not_found"
	CodeConflict           = "conflict"
	CodeLeaseLost          = "lease_lost"
	CodeAlreadyCompleted   = "already_completed"
	CodeIdempotency        = "idempotency_mismatch"
	CodeWorkerConflict     = "worker_conflict"
	CodeNoWorker           = "no_worker"
	CodeTooLarge           = "payload_too_large"
	CodeRateLimited        = "rate_limited"
	CodeQueueFull          = "queue_full"
	CodeUnavailable        = "unavailable"
	CodeMembridgeDown      = "membridge_unreachable"
	CodeMembridgeForbidden = "membridge_unauthorized"
	CodeMembridgeFailed    = "membridge_failed"         // it answered 5xx
	CodeMembridgeElsewhere = "membridge_redirect"       // it points elsewhere
	CodeMembridgeJob       = "membridge_job_failed"     // an agent did not carry out what membridge asked of it
	CodeMembridgeStrange   = "membridge_invalid_answer" // not an answer of membridge's
)

// Error is a failure that may be shown: a stable code and one sentence a person
// understands. The cause, reachable by errors.Unwrap, goes to the log only.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Details []FieldError
	Cause   error
}

// FieldError names one wrong field of a request.
type FieldError struct {
	Field   string `json:"field" doc:"Path of the field, for example policy.timeout_sec"`
	Message string `json:"message" doc:"What is wrong with it"`
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// Is reports a match of kind and code, so that errors.Is(err, ErrLeaseLost)
// holds for every lost lease whatever its sentence says.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Code == e.Code
}

// Errors that callers branch on. Compare with errors.Is.
var (
	ErrTaskNotFound   = &Error{Kind: KindNotFound, Code: CodeNotFound, Message: "Task not found"}
	ErrWorkerNotFound = &Error{Kind: KindNotFound, Code: CodeNotFound, Message: "Worker not found"}
	ErrLeaseNotFound  = &Error{Kind: KindNotFound, Code: CodeNotFound, Message: "No active lease for this task"}
	ErrNoWorker       = &Error{Kind: KindUnavailable, Code: CodeNoWorker, Message: "No available worker with free capacity"}
	ErrLeaseLost      = &Error{Kind: KindConflict, Code: CodeLeaseLost, Message: "This lease is no longer the task's current one; stop the work"}
	ErrOtherOutcome   = &Error{Kind: KindConflict, Code: CodeAlreadyCompleted, Message: "This lease was already completed with another outcome"}
	ErrIdempotency    = &Error{Kind: KindConflict, Code: CodeIdempotency, Message: "This idempotency key was already used with another body"}
	ErrQueueFull      = &Error{Kind: KindRateLimited, Code: CodeQueueFull, Message: "The queue is full; try again when workers have taken some of it"}
	ErrWorkerConflict = &Error{Kind: KindConflict, Code: CodeWorkerConflict, Message: "Another live process is registered under this worker name; choose another --name or stop it"}
	ErrUnavailable    = &Error{Kind: KindUnavailable, Code: CodeUnavailable, Message: "The store does not answer; try again shortly"}
)

// NotFound says that a thing of the given kind ("Artifact") does not exist.
func NotFound(what string) *Error {
	return &Error{Kind: KindNotFound, Code: CodeNotFound, Message: what + " not found"}
}

// Conflict says that the present state does not allow the operation.
func Conflict(format string, args ...any) *Error {
	return &Error{Kind: KindConflict, Code: CodeConflict, Message: fmt.Sprintf(format, args...)}
}

// Invalid says that a request is wrong, naming the fields where that helps.
func Invalid(message string, details ...FieldError) *Error {
	return &Error{Kind: KindInvalid, Code: CodeInvalid, Message: message, Details: details}
}

// Internal hides a cause behind a safe sentence.
func Internal(cause error) *Error {
	return &Error{Kind: KindInternal, Code: CodeInternal, Message: "Something went wrong on the server; the log has the details", Cause: cause}
}

// KindOf returns the kind of err, KindInternal for an error that is not ours.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}
