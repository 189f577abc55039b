package claude_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestTimeoutEndsTheRun(t *testing.T) {
	t.Parallel()
	for timeout := 4; ; timeout *= 2 {
		var asked atomic.Pointer[time.Time]
		h := newHarness(t, func(standin.Request) standin.Reply {
			now := time.Now()
			asked.Store(&now)
			return standin.Reply{Text: "late", HangAfterStart: true, Until: make(chan struct{}), Usage: standin.Usage{Input: 1000, Output: 1}}
		})
		slow := task("hang")
		slow.Policy.TimeoutSec = timeout
		run, _ := h.run(slow)
		wantError(t, run, bloom.ClassTimeout)
		if at := asked.Load(); timeout < 100 && (at == nil || time.Since(*at) < time.Duration(timeout)*time.Second/4) {
			continue // a busy machine: the time was over before claude could read the beginning
		}
		if run.Completion.Retryable {
			t.Errorf("run = %s, want no attempt that pays for the same again", show(run))
		}
		m := run.Completion.Metrics
		if m.TokensUsed == nil || *m.TokensUsed < 1000 || m.CostUSD == nil || *m.CostUSD <= 0 {
			t.Errorf("metrics = %s, want the tokens and cost of the killed run", show(run))
		}
		return
	}
}

func TestSilenceEndsTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Until: make(chan struct{})}))
	h.config.Silence = 15 * time.Second // in which claude begins, also on a busy machine
	run, _ := h.run(task("hang"))
	wantError(t, run, bloom.ClassTimeout)
	if !run.Completion.Retryable {
		t.Errorf("run = %s, want another attempt, because the model has not answered", show(run))
	}
}

func TestAHookThatHangsCostsOneTimeLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "ok"}))
	h.file(".claude/settings.json", `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"sleep 600"}]}]}}`)
	for name, limit := range map[string]func(*bloom.Task){
		"silence":    func(*bloom.Task) { h.config.Silence = 5 * time.Second },
		"time limit": func(b *bloom.Task) { b.Policy.TimeoutSec = 5; h.config.Silence = time.Hour },
	} {
		b := task("hello")
		limit(&b)
		run, _ := h.run(b)
		wantError(t, run, bloom.ClassTimeout)
		if run.Completion.Retryable || !strings.Contains(*run.Completion.ErrorMessage, "hook") {
			t.Errorf("%s: run = %s, want no other attempt and the cause", name, show(run))
		}
	}
}

func TestTheCauseOfACancelledContextDecides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cause   error
		class   bloom.ErrorClass
		release bool
	}{
		"cancelled by a person": {attempt.ErrCancelled, bloom.ClassCancelled, false},
		"lease lost":            {attempt.ErrLeaseGone, bloom.ClassWorkerLost, false},
		"worker draining":       {attempt.ErrDraining, bloom.ClassWorkerLost, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, standin.Sequence(standin.Reply{Until: make(chan struct{})}))
			ctx, cancel := context.WithCancelCause(t.Context())
			j := &journal{}
			running := j.on(claude.EventSession)
			go func() { <-running; cancel(test.cause) }()
			run := h.runner().Run(ctx, task("hang"), j.emit)
			wantError(t, run, test.class)
			if (run.Release != nil) != test.release {
				t.Errorf("run = %s, want release %v", show(run), test.release)
			}
		})
	}
}

func TestBudgetIsEnforced(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	h := newHarness(t, func(standin.Request) standin.Reply {
		if asked.Add(1) > 8 { // for ever, unless the budget is enforced
			return standin.Reply{Until: make(chan struct{})}
		}
		reply := standin.Tool("on and on", "Bash", map[string]any{"command": "true", "description": "nothing"})
		reply.Usage = standin.Usage{Input: 400, Output: 100}
		return reply
	})
	greedy := task("spend")
	greedy.Policy.Budget = 1200
	run, _ := h.run(greedy)
	wantError(t, run, bloom.ClassBudgetExceeded)
	if used := run.Completion.Metrics.TokensUsed; used == nil || *used <= 1200 {
		t.Errorf("metrics = %s, want what was used", show(run))
	}
}
