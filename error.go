package bloom

import (
	"errors"
	"fmt"
)

// Kind classifies an Error. The HTTP adapter alone maps kinds to status codes.
type Kind int

// The kinds of failure a caller can meet.
const (
	KindInternal     Kind = iota // our fault; the message is safe, the cause is only logged
	KindInvalid                  // the request itself is wrong
	KindUnauthorized             // no key, or an unknown one
	KindForbidden                // a known key whose role does not allow the request
	KindNotFound
	KindConflict // the state does not allow it
	KindTooLarge
	KindRateLimited
	KindUnavailable // not possible now; retry later
	KindUpstream    // a system that the server depends on failed
)

// Codes are stable: programs may branch on them. The comments are in docs/reference/errors.md:
// what the code means; what to do.
const (
	CodeInternal                 = "internal"                 // something went wrong on the server; its log has the details under the request ID
	CodeInvalid                  = "invalid_request"          // the request is wrong; the details name the fields
	CodeUnauthorized             = "unauthorized"             // the key or session is missing, unknown, revoked or expired; send a valid key
	CodeNoCertificate            = "certificate_required"     // worker keys count only with a client certificate; set --client-cert and --client-key
	CodeForbidden                = "forbidden"                // the role of the key, or the worker that it is bound to, does not allow the request; use another key
	CodeNotFound                 = "not_found"                // nothing has this ID, or nothing is at this address; check both
	CodeConflict                 = "conflict"                 // the current state does not allow the operation; read the state again
	CodeLeaseLost                = "lease_lost"               // the lease is no longer the task's current one; stop the work
	CodeAlreadyCompleted         = "already_completed"        // the lease was already completed with another outcome, which stays; discard yours
	CodeIdempotency              = "idempotency_mismatch"     // the idempotency key was already used with another body; use a new key
	CodeWorkerConflict           = "worker_conflict"          // another live process is registered under this worker name; stop it or choose another --name
	CodeNoWorker                 = "no_worker"                // no worker can take the task; the message says why
	CodeTooLarge                 = "payload_too_large"        // the body or file is larger than the server accepts; send less
	CodeRateLimited              = "rate_limited"             // too many requests; wait as Retry-After says
	CodeBusy                     = "busy"                     // the memory for large bodies, responses and searches is in use; retry as Retry-After says
	CodeQueueFull                = "queue_full"               // too many tasks are queued; retry when workers have taken some, add workers or raise --max-queued
	CodeUnavailable              = "unavailable"              // the store does not answer, or the server is starting or stopping; retry shortly
	CodeMembridgeDown            = "membridge_unreachable"    // membridge cannot be reached; check that it runs, and --membridge-server-url
	CodeMembridgeForbidden       = "membridge_unauthorized"   // membridge refused the server's key; check the key in the settings
	CodeMembridgeFailed          = "membridge_failed"         // membridge answered with a status of 500 or above; its own log says why
	CodeMembridgeElsewhere       = "membridge_redirect"       // membridge answered with a redirect, which is not followed; configure its final address
	CodeMembridgeJob             = "membridge_job_failed"     // an agent did not carry out a sync job; the message says why
	CodeMembridgeInvalidResponse = "membridge_invalid_answer" // the response does not fit the request; the server at this address may not be membridge
)

// Error is a failure that may be shown to a caller: a stable code and a sentence. Its cause, which
// errors.Unwrap returns, goes to the log only.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Details []FieldError
	Decided *Approval // without input and answers: what was decided first, in the conflict of a second decision
	Cause   error
}

// FieldError describes one invalid field of a request.
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

// Is reports whether kind and code match, so that errors.Is(err, ErrLeaseLost) holds for every lost
// lease whatever its message.
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
	ErrQueueFull      = &Error{Kind: KindRateLimited, Code: CodeQueueFull, Message: "The queue is full; try again when workers have taken some tasks"}
	ErrWorkerConflict = &Error{Kind: KindConflict, Code: CodeWorkerConflict, Message: "Another live process is registered under this worker name; choose another --name or stop it"}
	ErrUnavailable    = &Error{Kind: KindUnavailable, Code: CodeUnavailable, Message: "The store does not answer; try again shortly"}
)

// NotFound returns the error for a missing thing of the given kind ("Artifact").
func NotFound(what string) *Error {
	return &Error{Kind: KindNotFound, Code: CodeNotFound, Message: what + " not found"}
}

// Conflict returns the error for an operation that the current state does not allow.
func Conflict(format string, args ...any) *Error {
	return &Error{Kind: KindConflict, Code: CodeConflict, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns the error for an invalid request. details name the fields.
func Invalid(message string, details ...FieldError) *Error {
	return &Error{Kind: KindInvalid, Code: CodeInvalid, Message: message, Details: details}
}

// Internal returns an error with a safe message that wraps cause.
func Internal(cause error) *Error {
	return &Error{Kind: KindInternal, Code: CodeInternal, Message: "Something went wrong on the server; the log has the details", Cause: cause}
}

// KindOf returns the kind of err, KindInternal when err is not an *Error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}
