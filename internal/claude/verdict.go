package claude

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// verdict is the outcome to report, derived from a turn's evidence.
type verdict struct {
	ok        bool
	class     bloom.ErrorClass // when not ok
	message   string           // when not ok, a sentence
	retryable bool
	release   bool               // release the task instead of completing it
	notBefore int64              // when it may start again, with release; Unix milliseconds
	refused   bool               // the worker's credentials, whatever the task; or limited, no one knows until when
	suspend   *bloom.SuspendSpec // suspend the task instead; it waits for a person
	output    string             // the answer, possibly partial
}

func failed(class bloom.ErrorClass, message string) verdict {
	return verdict{class: class, message: message, retryable: Retryable(class)}
}

func refused(message string) verdict {
	v := failed(bloom.ClassAuth, message)
	v.refused = true
	return v
}

// verdictOf derives the verdict from all evidence: why the worker stopped claude, the exit
// code, whether there is a result, is_error, subtype and terminal_reason. No single one
// suffices: claude prints "success" with is_error, exits with 0 after an error, or exits
// with 1 and prints nothing. An unknown combination is a failure.
func verdictOf(o outcome) verdict {
	v := classify(o)
	if o.result != nil && o.result.Result != nil {
		v.output = *o.result.Result
		if !o.result.IsError { // else it is claude's error message
			v.output = o.earlier + v.output
		}
	}
	if v.class == bloom.ClassIncomplete && o.lastText != "" && (v.output == "" || o.result.IsError) {
		v.output = o.lastText // instead of nothing, or of claude's error message
	}
	return v
}

func classify(o outcome) verdict {
	v := byEvidence(o)
	if v.refused && v.class == bloom.ClassAuth {
		// Not the task's fault: it waits for credentials. If they are refused in the middle of a
		// run, the number of attempts limits how often the same steps are paid for.
		v.release, v.retryable = !o.worked, o.worked
	}
	return v
}

func byEvidence(o outcome) verdict {
	if o.startErr != nil {
		return notStarted(o.startErr)
	}
	if errors.Is(o.stopped, errBudget) || errors.Is(o.stopped, errToolUsed) {
		return stoppedVerdict(o)
	}
	// A complete success stays one even if claude was stopped afterwards.
	if o.result != nil && isSuccess(o.result) && !o.unfinished() && (o.stopped != nil || o.exit.Code == 0) {
		return answer(o)
	}
	if o.stopped != nil && !errors.Is(o.stopped, errAfterResult) {
		return stoppedVerdict(o)
	}
	if o.result == nil {
		return noResult(o)
	}
	if isSuccess(o.result) && o.unfinished() {
		return failed(bloom.ClassIncomplete, "claude ended without the result of its work in the background")
	}
	if isSuccess(o.result) {
		return failed(bloom.ClassCrashed, exitText(o.exit)+" after a result that read like a success"+evidence(o))
	}
	return errorResult(o)
}

// isSuccess reports whether no field of the result indicates an error.
func isSuccess(m *message) bool {
	return m.Subtype == "success" && !m.IsError && m.Result != nil && m.APIErrorStatus < 400 &&
		(m.TerminalReason == "" || m.TerminalReason == "completed")
}

// answer returns the verdict on a result without an error. The answer may still be missing or
// incomplete.
func answer(o outcome) verdict {
	text := strings.TrimSpace(*o.result.Result)
	switch {
	case !o.worked && o.result.NumTurns == 0:
		return failed(bloom.ClassRefused, "claude ended the turn without asking the model, as when a hook blocks the prompt"+quote(text))
	case o.result.StopReason == "pause_turn":
		return failed(bloom.ClassIncomplete, "the model paused before the end of its answer")
	case !endsAnswer(o.result.StopReason):
		return failed(bloom.ClassIncomplete, "the model stopped before the end of its answer ("+storable.Cut(o.result.StopReason, 100)+")")
	case text == "":
		return failed(bloom.ClassIncomplete, "claude ended without an answer, as when a Stop hook never lets it end")
	}
	return verdict{ok: true}
}

// endsAnswer reports whether a complete answer may have the stop reason. Old versions of claude
// do not report it.
func endsAnswer(reason string) bool {
	return reason == "" || reason == "end_turn" || reason == "stop_sequence"
}

func notStarted(err error) verdict {
	v := failed(bloom.ClassInternal, "claude could not be started")
	// The cause is this machine, not the task: another worker may succeed.
	v.retryable = true
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, fs.ErrNotExist):
		v.message = "the claude command line was not found on this worker; run bloom doctor there"
	case errors.Is(err, fs.ErrPermission):
		v.message = "the claude command line on this worker may not be executed"
	}
	return v
}

func stoppedVerdict(o outcome) verdict {
	switch {
	case errors.Is(o.stopped, errTimeout):
		return timedOut(o, "the task exceeded its time limit; raise it with --timeout (policy.timeout_sec)")
	case errors.Is(o.stopped, errSilent):
		return timedOut(o, errSilent.Error())
	case errors.Is(o.stopped, errBudget):
		return failed(bloom.ClassBudgetExceeded, "the task used more tokens than policy.budget allows")
	case errors.Is(o.stopped, errProtocol):
		return failed(bloom.ClassCrashed, errProtocol.Error())
	case errors.Is(o.stopped, errNotResumed):
		v := failed(bloom.ClassInternal, "claude does not go on with the call that a person has decided about; another version of claude may")
		v.retryable = true
		return v
	case errors.Is(o.stopped, errToolUsed):
		return failed(bloom.ClassPermissionDenied, o.stopped.Error())
	case errors.Is(o.stopped, errToolOffered):
		v := failed(bloom.ClassInternal, o.stopped.Error()+"; run it on another worker")
		v.retryable = true // another worker may have another claude
		return v
	case errors.Is(o.stopped, errNotRetryable):
		return apiError(o, o.retry.ErrorStatus, plain(o.retry.Error))
	case errors.Is(o.stopped, attempt.ErrCancelled):
		return failed(bloom.ClassCancelled, "the task was cancelled while it ran")
	case errors.Is(o.stopped, attempt.ErrLeaseGone):
		return failed(bloom.ClassWorkerLost, "the worker lost its lease and stopped the work")
	}
	v := failed(bloom.ClassWorkerLost, "the worker stopped")
	v.release = true
	return v
}

// timedOut returns the verdict on a run that took too long. It is not retried if the model had
// answered, because another attempt would pay for the same steps, nor if claude did not even begin,
// because it would hang again.
func timedOut(o outcome, message string) verdict {
	if o.launched && o.sessionID == "" {
		message = "claude did not begin its session in time, as when a hook or an MCP server of its settings hangs: " + message
	}
	v := failed(bloom.ClassTimeout, message)
	v.retryable = !o.worked && (!o.launched || o.sessionID != "")
	return v
}

func noResult(o outcome) verdict {
	switch {
	case o.noConversation():
		return failed(bloom.ClassCrashed, "claude does not know the session to resume")
	case loginMissing(o.stderr):
		return refused(notLoggedIn + evidence(o))
	case o.skipped > 0:
		return failed(bloom.ClassOutputInvalid, fmt.Sprintf("claude printed a line of %d bytes, which is longer than the worker's limit", o.skipped))
	case o.exit.Code == 1 && strings.Contains(o.stderr, "unknown option"):
		return failed(bloom.ClassInternal, "this version of claude does not support an option that the worker uses"+evidence(o))
	}
	return failed(bloom.ClassCrashed, exitText(o.exit)+" without a result"+evidence(o))
}

const (
	notLoggedIn    = "claude is not logged in on this worker, or its key is not valid; run bloom doctor there"
	contextTooLong = "the conversation is too long for the model"
)

// errorResult returns the verdict on a result that indicates an error.
func errorResult(o outcome) verdict {
	m := o.result
	text := strings.Join(m.Errors, "; ")
	if m.Result != nil && *m.Result != "" {
		text = *m.Result
	}
	lower := strings.ToLower(text)
	switch {
	case m.StopReason == "refusal", strings.Contains(lower, "usage policy"):
		return failed(bloom.ClassRefused, "the model refused the task"+quote(text))
	case m.TerminalReason == "hook_stopped", m.TerminalReason == "stop_hook_prevented":
		return failed(bloom.ClassRefused, "a hook of claude's settings stopped the run"+quote(text))
	case contextFull(m.TerminalReason), strings.Contains(lower, "prompt is too long"), strings.Contains(lower, "context window limit"):
		return failed(bloom.ClassContextTooLong, contextTooLong)
	case m.APIError == "max_output_tokens":
		return failed(bloom.ClassIncomplete, "the answer exceeds the model's maximum output"+quote(text))
	case m.Subtype == "error_max_budget_usd":
		return failed(bloom.ClassBudgetExceeded, "the worker's own cost limit was reached")
	case m.Subtype == "error_max_turns":
		return failed(bloom.ClassBudgetExceeded, "the worker's own limit on turns was reached")
	case m.APIErrorStatus >= 400:
		return apiError(o, m.APIErrorStatus, text)
	case loginMissing(text):
		return refused(notLoggedIn + quote(text))
	case o.limit != nil && o.limit.Status == "rejected", strings.Contains(lower, "usage limit reached"), strings.Contains(lower, "hit your limit"):
		return rateLimitVerdict(o, text)
	case strings.Contains(text, "[ede_diagnostic]"): // a stream that broke off before any content
		return failed(bloom.ClassProviderError, "the model's API broke off its answer"+quote(text))
	case o.retry != nil, strings.HasPrefix(text, "API Error"), strings.Contains(lower, "connection error"):
		return failed(bloom.ClassProviderError, "the model's API did not answer"+quote(text))
	case len(m.Denials) > 0:
		return failed(bloom.ClassPermissionDenied, "claude was not permitted to use "+deniedTools(m)+quote(text))
	}
	return failed(bloom.ClassCrashed, fmt.Sprintf("claude reported an error (%s, %s)%s", m.Subtype, m.TerminalReason, quote(text)))
}

// contextFull reports whether claude ended a run because the conversation fills the context
// window.
func contextFull(terminalReason string) bool {
	switch terminalReason {
	case "prompt_too_long", "blocking_limit", "rapid_refill_breaker":
		return true
	}
	return false
}

func apiError(o outcome, status int, text string) verdict {
	noLogin := status < 404 && loginMissing(text) // the text may quote what the task has read
	switch {
	case status == 401 || status == 403 || noLogin:
		v := refused(fmt.Sprintf("the model's API refused the worker's credentials (%d)%s", status, quote(text)))
		v.refused = status != 403 || noLogin // 403 may concern the task's model alone
		return v
	case status == 429:
		return rateLimitVerdict(o, text)
	case status == 413 || strings.Contains(strings.ToLower(text), "prompt is too long"):
		return failed(bloom.ClassContextTooLong, contextTooLong)
	case status >= 500 || status == 408:
		return failed(bloom.ClassProviderError, fmt.Sprintf("the model's API failed (%d)%s", status, quote(text)))
	}
	return failed(bloom.ClassInvalidInput, fmt.Sprintf("the model's API refused the request (%d)%s", status, quote(text)))
}

// rateLimitVerdict releases the task, without using up an attempt, until the limit is reset. If
// that is not known, which is so with API keys, the worker waits longer each time.
func rateLimitVerdict(o outcome, text string) verdict {
	v := failed(bloom.ClassRateLimited, "the model's provider rate-limits this worker"+quote(text))
	v.release, v.refused = true, true
	if o.limit != nil && o.limit.Status == "rejected" && o.limit.resetMillis() > 0 {
		v.refused, v.notBefore = false, o.limit.resetMillis()
	}
	return v
}

func loginMissing(text string) bool {
	lower := strings.ToLower(text)
	for _, sign := range []string{"not logged in", "please run /login", "invalid api key", "oauth token has expired", "oauth token revoked", "credit balance is too low"} {
		if strings.Contains(lower, sign) {
			return true
		}
	}
	return false
}

func deniedTools(m *message) string {
	var names []string
	for _, denial := range m.Denials {
		names = append(names, denial.Tool)
	}
	return strings.Join(names, ", ")
}

func evidence(o outcome) string { return quote(o.stderr) }

// quote returns ": " and the beginning of the text, "" for an empty text.
func quote(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return ": " + storable.Cut(text, 1000)
}
