package storetest

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

const minute = int64(60_000)

// SeriesTotal adds up a whole time series.
func SeriesTotal(t testing.TB, s bloom.Store) (sum bloom.SeriesPoint) {
	t.Helper()
	day := 24 * 60 * minute
	points, err := s.Series(t.Context(), 0, 1<<42, day)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		sum.Created += p.Created
		sum.Started += p.Started
		sum.Completed += p.Completed
		sum.Failed += p.Failed
		sum.Dead += p.Dead
		sum.Cancelled += p.Cancelled
		sum.TokensUsed += p.TokensUsed
		sum.InputTokens += p.InputTokens
		sum.OutputTokens += p.OutputTokens
		sum.CostUSD += p.CostUSD
	}
	return sum
}

// series returns the steps since the clock's first day.
func (h *harness) series(step int64) []bloom.SeriesPoint {
	h.Helper()
	points, err := h.s.Series(h.ctx, 0, 1<<42, step)
	h.ok(err)
	return points
}

// counted returns a point without its samples and time.
func counted(p bloom.SeriesPoint) bloom.SeriesPoint {
	p.At, p.Queued, p.Running, p.OldestWait = 0, nil, nil, nil
	return p
}

var seriesTests = map[string]func(*harness){
	"each transition counts in its minute, once": func(h *harness) {
		h.worker("w", 9)
		began := h.now() / minute * minute
		done, lost, called := h.create(), h.create(attempts(1)), h.create()
		l := h.lease(done.ID, "w")
		h.heartbeat(l)
		h.heartbeat(l)
		h.advance(time.Minute)
		r := success(done.ID, l.ID, "out")
		in, out, cost := int64(70), int64(30), 0.125
		r.Completion.Metrics = bloom.Metrics{InputTokens: &in, OutputTokens: &out, CostUSD: &cost}
		h.complete(r)
		h.complete(r) // a repeat
		l = h.lease(lost.ID, "w")
		h.complete(failure(lost.ID, l.ID, "no", false)) // before its first heartbeat
		_, err := h.s.Cancel(h.ctx, called.ID, "me")
		h.ok(err)
		got := h.series(minute)
		if len(got) != 2 || got[0].At != began || got[1].At != began+minute {
			h.Fatalf("points %+v", got)
		}
		same(h, "the first minute", counted(got[0]), bloom.SeriesPoint{Created: 3, Started: 1})
		same(h, "the second", counted(got[1]), bloom.SeriesPoint{
			Completed: 1, Failed: 1, Cancelled: 1, Started: 1, TokensUsed: 100, InputTokens: 70, OutputTokens: 30, CostUSD: 0.125,
		})
	},
	"values that cannot be counted are ignored": func(h *harness) {
		h.worker("w", 9)
		most, cost := int64(1)<<62, 1e300
		for range 9 {
			t := h.create()
			r := success(t.ID, h.lease(t.ID, "w").ID, "out")
			r.Completion.Metrics = bloom.Metrics{TokensUsed: &most, InputTokens: &most, CostUSD: &cost}
			h.complete(r)
		}
		context, err := h.s.Context(h.ctx, "context")
		h.ok(err)
		same(h, "tokens of the context", context.Tokens, 9*bloom.MaxTokens)
		same(h, "its cost", context.CostUSD, 9*bloom.MaxCostUSD)
		h.advance(30 * time.Hour)
		h.ok(h.s.KeepSeries(h.ctx))
		if sum := SeriesTotal(h, h.s); sum.Completed != 9 || sum.TokensUsed < 9 || sum.CostUSD < 9 {
			h.Errorf("sum %+v", sum)
		}
	},
	"the queue is sampled": func(h *harness) {
		h.worker("w", 9)
		h.ok(h.s.KeepSeries(h.ctx))
		got := h.series(minute)
		if len(got) != 1 || *got[0].Queued != 0 || *got[0].Running != 0 || got[0].OldestWait != nil {
			h.Fatalf("an empty store: %+v", got)
		}
		since, err := h.s.OldestWaiting(h.ctx)
		h.ok(err)
		same(h, "waiting since", since, 0)
		held := h.create()
		h.lease(held.ID, "w")
		h.create(func(n *bloom.NewTask) { n.Spec.RunAt = h.now() + 3_600_000 })
		h.advance(time.Second)
		first := h.now()
		h.create(func(n *bloom.NewTask) { n.Spec.Labels, n.Spec.Priority = []string{"z"}, -3 })
		h.advance(2 * time.Minute)
		for i := range 6 {
			h.create(func(n *bloom.NewTask) {
				n.Spec.Priority = i % 3
				if i > 2 {
					n.Spec.Labels = []string{"z"}
				}
			})
		}
		since, err = h.s.OldestWaiting(h.ctx)
		h.ok(err)
		same(h, "waiting since", since, first)
		h.ok(h.s.KeepSeries(h.ctx))
		got = h.series(minute)
		last := got[len(got)-1]
		if *last.Queued != 8 || *last.Running != 1 || *last.OldestWait < 2*minute || *last.OldestWait > 3*minute {
			h.Errorf("sampled %d queued, %d running, %d ms", *last.Queued, *last.Running, *last.OldestWait)
		}
	},
	"minutes are merged into hours, and old hours are removed": func(h *harness) {
		h.worker("w", 9)
		for range 4 {
			h.finish(h.create().ID, "w")
			h.ok(h.s.KeepSeries(h.ctx))
			h.advance(29 * time.Minute)
		}
		before, by := SeriesTotal(h, h.s), h.series(60*minute)
		for range 2 { // the second time changes nothing
			h.advance(13 * time.Hour)
			h.ok(h.s.KeepSeries(h.ctx))
		}
		same(h, "the sum", SeriesTotal(h, h.s), before)
		at := h.series(minute)
		for i, p := range by {
			same(h, "an hour", counted(at[i]), counted(p))
			if at[i].At != p.At || *at[i].Queued != *p.Queued {
				h.Errorf("%+v is folded to %+v", p, at[i])
			}
		}
		same(h, "points", len(at), len(by)+2) // and two samples
		h.advance(91 * 24 * time.Hour)
		h.ok(h.s.KeepSeries(h.ctx))
		same(h, "points", len(h.series(minute)), 1)
	},
}
