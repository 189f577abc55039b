package maintenance_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestEveryLoopSurvivesEveryOrderOfStartAndStop(t *testing.T) {
	t.Parallel()
	s := open(t, timing.System{})
	loops := []*maintenance.Loop{
		maintenance.NewReaper(maintenance.ReaperConfig{Store: s, Every: time.Millisecond}),
		maintenance.NewSilentWorkers(maintenance.SilentWorkersConfig{Store: s, Every: time.Millisecond}),
		maintenance.NewWorkerSync(maintenance.WorkerSyncConfig{Store: s, ControlPlane: &plane{}, Every: time.Millisecond}),
		maintenance.NewRetention(maintenance.RetentionConfig{Store: s, Every: time.Millisecond, Keep: contract.Keep{Tasks: time.Hour, Events: time.Hour, Audit: time.Hour}}),
	}
	for _, l := range loops {
		t.Run(l.Name(), func(t *testing.T) {
			t.Parallel()
			l.Stop() // before any start
			l.Restart()
			l.Start()
			l.Start()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 20 {
						if _, err := l.RunOnce(t.Context()); err != nil {
							t.Errorf("run: %v", err)
						}
					}
				})
				wg.Go(func() {
					for range 10 {
						l.Start()
						l.Restart()
						l.Stop()
						l.Stop()
					}
				})
			}
			wg.Wait()
			l.Start()
			l.Stop()
			l.Stop()
		})
	}
}

func TestARunWaitsForTheOneInProgressButNotForever(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	l := maintenance.NewSilentWorkers(maintenance.SilentWorkersConfig{Store: silence(func() {
		close(entered)
		<-leave
	})})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = l.RunOnce(context.Background()) })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.RunOnce(ctx); err == nil {
		t.Fatal("a second run overlapped the first")
	}
	close(leave)
	wg.Wait()
}

type silence func()

func (s silence) MarkSilent(context.Context, time.Duration) (int, error) {
	s()
	return 0, nil
}

func TestObserversSeeOnlyTheLoopsOwnRuns(t *testing.T) {
	t.Parallel()
	errDown := errors.New("the database is down")
	var ours bool
	var asking, failing error
	var observed []error
	check := func(context.Context) error { return failing }
	l := maintenance.NewWatch(maintenance.WatchConfig{Check: check}).
		Observe(func(err error) { observed = append(observed, err) }).
		OnlyLeader(func(context.Context) (bool, error) { return ours, asking })
	run := func() { _, _ = l.RunOnce(t.Context()) }
	run() // another replica's
	ours = true
	run()
	failing = errDown
	run()
	failing, asking = nil, errDown // nobody knows whose it is
	run()
	stopped, stop := context.WithCancel(t.Context())
	asking = nil
	check = func(ctx context.Context) error { stop(); return ctx.Err() }
	l = maintenance.NewWatch(maintenance.WatchConfig{Check: check}).Observe(func(error) { t.Error("a stopped run was reported") })
	_, _ = l.RunOnce(stopped)
	if diff := cmp.Diff([]error{nil, errDown, errDown}, observed, cmpopts.EquateErrors()); diff != "" {
		t.Error(diff)
	}
}
