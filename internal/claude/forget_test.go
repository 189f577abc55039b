package claude_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestForgettingWaitsForTheTaskThatRuns(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	_, harnesses := fleet(t, 1, 0, func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "hold") {
			return standin.Reply{Text: "noted", Until: held}
		}
		return standin.Reply{Text: "noted"}
	})
	h := harnesses[0]
	runner, ran := h.runner(), make(chan attempt.Run)
	go func() { ran <- runner.Run(t.Context(), task("hold"), func(string, any) {}) }()
	for n, more := h.model.Arrived(); n == 0; n, more = h.model.Arrived() {
		<-more
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := runner.Forget("ctx")(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("a worker that stops does not wait for the task: %v", err)
	}
	forgotten := make(chan error)
	go func() { forgotten <- runner.Forget("ctx")(t.Context()) }()
	close(held)
	wantSuccess(t, <-ran, "noted")
	if err := <-forgotten; err != nil {
		t.Fatal(err)
	}
	if left := sessionFiles(t, h); len(left) > 0 {
		t.Errorf("left on the worker: %v", left)
	}
}

func TestATaskWaitsUntilItsContextIsForgotten(t *testing.T) {
	t.Parallel()
	a, harnesses := fleet(t, 1, 0, standin.Sequence(standin.Reply{Text: "noted"}))
	h := harnesses[0]
	h.turn(a, "my colour is green")
	finish := h.runner().Forget("ctx")
	ctx, cancel := context.WithCancelCause(t.Context())
	runner, ran := h.runner(), make(chan attempt.Run)
	go func() { ran <- runner.Run(ctx, task("too early"), func(string, any) {}) }()
	cancel(attempt.ErrCancelled)
	wantError(t, <-ran, bloom.ClassCancelled)
	if err := finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(a.kept, "ctx")
	delete(a.said, "ctx")
	run, _ := h.turn(a, "who am I?")
	wantSuccess(t, run, "noted")
	if got := h.conversation(); strings.Contains(got, "green") || strings.Contains(got, "too early") {
		t.Errorf("it is remembered:\n%s", got)
	}
}
