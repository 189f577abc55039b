package claude_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestARateLimitWithAResetTimeReleasesTheTask(t *testing.T) {
	t.Parallel()
	reset := time.Now().Add(time.Hour).Unix()
	reply := standin.Error(429, "rate_limit_error", "This request would exceed your account's rate limit.")
	reply.Header = map[string]string{
		"anthropic-ratelimit-unified-status":               "rejected",
		"anthropic-ratelimit-unified-reset":                fmt.Sprint(reset),
		"anthropic-ratelimit-unified-representative-claim": "five_hour",
		"retry-after": "3600",
	}
	h := newHarness(t, standin.Sequence(reply))
	h.setEnv("ANTHROPIC_API_KEY", "")
	h.setEnv("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-dummy")
	h.config.MaxRetries = 1
	run, j := h.run(task("hello"))
	wantError(t, run, bloom.ClassRateLimited)
	if run.Release == nil || run.Release.NotBefore != reset*1000 {
		t.Errorf("run = %s, want a release until %d; events %v", show(run), reset*1000, j.events)
	}
}

func TestNotLoggedIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{}))
	h.setEnv("ANTHROPIC_API_KEY", "")
	run, _ := h.run(task("hello"))
	wantError(t, run, bloom.ClassAuth)
	if run.Release == nil || !run.Refused {
		t.Errorf("run = %s, want the task to wait for credentials", show(run))
	}
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestAPIErrorsHaveTheirClasses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply standin.Reply
		class bloom.ErrorClass
		waits bool // released: it costs no attempt
	}{
		"401": {standin.Error(401, "authentication_error", "invalid x-api-key"), bloom.ClassAuth, true},
		"403": {standin.Error(403, "permission_error", "not yours"), bloom.ClassAuth, false},
		"400": {standin.Error(400, "invalid_request_error", "no such field"), bloom.ClassInvalidInput, false},
		"400 too long": {standin.Error(400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
			bloom.ClassContextTooLong, false},
		"400 no credit": {standin.Error(400, "invalid_request_error", "Your credit balance is too low to access the API."), bloom.ClassAuth, true},
		"429":           {standin.Error(429, "rate_limit_error", "slow down"), bloom.ClassRateLimited, true},
		"500 credit":    {standin.Error(500, "api_error", "credit balance is too low, said the task"), bloom.ClassProviderError, false},
		"529":           {standin.Error(529, "overloaded_error", "overloaded"), bloom.ClassProviderError, false},
		"500":           {standin.Error(500, "api_error", "broken"), bloom.ClassProviderError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, standin.Sequence(test.reply))
			h.config.MaxRetries = 1
			run, _ := h.run(task("hello"))
			wantError(t, run, test.class)
			if (run.Release != nil) != test.waits || run.Refused != test.waits {
				t.Errorf("run = %s, want it to wait: %v", show(run), test.waits)
			}
		})
	}
}

func TestCLIMissing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence())
	h.config.Path = filepath.Join(t.TempDir(), "claude")
	run, _ := h.run(task("hello"))
	wantError(t, run, bloom.ClassInternal)
	if !run.Completion.Retryable || strings.Contains(*run.Completion.ErrorMessage, h.config.Path) {
		t.Errorf("run = %s, want retryable and no path of the worker", show(run))
	}
}
