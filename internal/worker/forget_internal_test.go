package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

// TestAnInterruptedForgetIsRepeated: the file records up to where all contexts are
// forgotten, whatever their order. The next process continues there.
func TestAnInterruptedForgetIsRepeated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "forgotten")
	noted := func() string {
		raw, _ := os.ReadFile(path)
		return strings.TrimSpace(string(raw))
	}
	turns := map[string]chan error{"slow": make(chan error), "quick": make(chan error), "broken": make(chan error)}
	w := &Worker{log: slog.New(slog.DiscardHandler), state: &state{forgotten: openProgress(path)}}
	w.cfg.Forget = func(id string) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case err := <-turns[id]:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	f := newForgetter(t.Context(), w)
	f.begin([]bloom.ForgottenContext{{Seq: 3, ID: "quick"}, {Seq: 5, ID: "slow"}, {Seq: 8, ID: "broken"}}, false)
	if seq := w.state.forgotten.named().Seq; seq != 8 || !f.more {
		t.Errorf("the server is asked for what comes after %d", seq)
	}
	turns["quick"] <- nil
	turns["broken"] <- errors.New("cannot be removed")
	f.stop() // the slow one is interrupted
	if got := noted(); got != `{"seq":3,"id":"quick"}` {
		t.Errorf("noted %q, want the quick one", got)
	}
	again := openProgress(path)
	if again.named().Seq >= 5 {
		t.Errorf("the next process begins after %d, and never repeats the interrupted one", again.named().Seq)
	}
	w.state.forgotten = again
	f = newForgetter(t.Context(), w)
	f.begin([]bloom.ForgottenContext{{Seq: 5, ID: "slow"}}, false)
	turns["slow"] <- nil
	f.rest.Wait()
	if got := noted(); got != `{"seq":5,"id":"slow"}` {
		t.Errorf("noted %q, want the slow one", got)
	}
	f.begin(nil, false)
	// Another database: its numbers are lower, and what is used again is not deleted.
	f.begin([]bloom.ForgottenContext{{Seq: 1, ID: "used", Used: true}, {Seq: 2, ID: "quick"}}, true)
	turns["quick"] <- nil
	f.rest.Wait()
	if got := noted(); got != `{"seq":2,"id":"quick"}` {
		t.Errorf("noted %q, want the one of the other database", got)
	}
	f.begin(nil, false)
	f.stop()
	if f.more {
		t.Error("it asks at once for more although the server named none")
	}
}
