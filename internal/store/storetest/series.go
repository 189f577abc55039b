package storetest

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const minute = int64(60_000)

// SeriesTotal adds up a whole time series.
func SeriesTotal(t testing.TB, s contract.Store) (sum bloom.SeriesPoint) {
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
	"running attempts count with what they reported, and once": func(h *harness) {
		h.worker("w", 9)
		reported := bloom.Usage{TokensUsed: 100, InputTokens: 70, OutputTokens: 30, CostUSD: 0.5}
		ended := bloom.Usage{} // of all attempts that have ended
		// look compares every place that shows usage.
		look := func(what, taskID string, running, task bloom.Usage) {
			h.Helper()
			st, err := h.s.Stats(h.ctx)
			h.ok(err)
			same(h, what+": running", st.Leases.Usage, running)
			sum := SeriesTotal(h, h.s)
			same(h, what+": ended", bloom.Usage{TokensUsed: sum.TokensUsed, InputTokens: sum.InputTokens, OutputTokens: sum.OutputTokens, CostUSD: sum.CostUSD}, ended)
			x := h.context("context")
			same(h, what+": tokens of the context", x.Tokens, ended.TokensUsed+running.TokensUsed)
			same(h, what+": its cost", x.CostUSD, ended.CostUSD+running.CostUSD)
			contexts, _, err := h.s.Contexts(h.ctx, bloom.ContextQuery{})
			h.ok(err)
			same(h, what+": cost in the list", contexts[0].CostUSD, x.CostUSD)
			got, err := h.s.Task(h.ctx, taskID)
			h.ok(err)
			same(h, what+": the task", *got.Usage, task)
			tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{})
			h.ok(err)
			same(h, what+": the task in the list", *tasks[0].Usage, task)
		}
		task := h.create()
		l := h.lease(task.ID, "w")
		_, err := h.s.Claim(h.ctx, contract.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Held: []string{l.ID}, Renew: true, Usage: map[string]bloom.Usage{l.ID: reported}})
		h.ok(err)
		look("reported", task.ID, reported, reported)
		h.claim("w", 0, l.ID)
		h.heartbeat(l)
		look("renewed without a report", task.ID, reported, reported)
		r := success(task.ID, l.ID, "out")
		final := bloom.Usage{TokensUsed: 160, InputTokens: 110, OutputTokens: 50, CostUSD: 0.25}
		r.Completion.Metrics = r.Completion.Metrics.WithUsage(final)
		h.complete(r)
		h.complete(r) // a repeat
		ended = final
		look("completed", task.ID, bloom.Usage{}, final)

		lost := h.create(attempts(3))
		l = h.lease(lost.ID, "w")
		_, err = h.s.Heartbeat(h.ctx, lost.ID, l.ID, &reported)
		h.ok(err)
		h.advance(time.Hour)
		h.reap(contract.Reaped{Requeued: 1})
		both := bloom.Usage{TokensUsed: 260, InputTokens: 180, OutputTokens: 80, CostUSD: 0.75}
		ended = both
		look("lost", lost.ID, bloom.Usage{}, reported)
		r = success(lost.ID, l.ID, "late")
		r.Completion.Metrics = r.Completion.Metrics.WithUsage(bloom.Usage{TokensUsed: 120, InputTokens: 80, OutputTokens: 40, CostUSD: 0.75})
		h.complete(r)
		ended = bloom.Usage{TokensUsed: 280, InputTokens: 190, OutputTokens: 90, CostUSD: 1}
		look("completed late", lost.ID, bloom.Usage{}, bloom.Usage{TokensUsed: 120, InputTokens: 80, OutputTokens: 40, CostUSD: 0.75})

		killed := h.create()
		l = h.lease(killed.ID, "w")
		_, err = h.s.Heartbeat(h.ctx, killed.ID, l.ID, &reported)
		h.ok(err)
		done := h.complete(failure(killed.ID, l.ID, "killed", true)) // it does not know its usage
		same(h, "metrics of the killed attempt", done.Result.Metrics.Usage(), reported)
		ended = bloom.Usage{TokensUsed: 380, InputTokens: 260, OutputTokens: 120, CostUSD: 1.5}
		look("killed", killed.ID, bloom.Usage{}, reported)
		h.advance(time.Hour)
		l = h.lease(killed.ID, "w")
		_, err = h.s.Heartbeat(h.ctx, killed.ID, l.ID, &bloom.Usage{InputTokens: 1, CostUSD: 1e300})
		h.ok(err)
		look("again", killed.ID, bloom.Usage{TokensUsed: 1, InputTokens: 1, CostUSD: bloom.MaxCostUSD},
			bloom.Usage{TokensUsed: 101, InputTokens: 71, OutputTokens: 30, CostUSD: bloom.MaxCostUSD + 0.5})
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
		h.create(func(n *contract.NewTask) { n.Spec.RunAt = h.now() + 3_600_000 })
		h.advance(time.Second)
		first := h.now()
		h.create(func(n *contract.NewTask) { n.Spec.Labels, n.Spec.Priority = []string{"z"}, -3 })
		h.advance(2 * time.Minute)
		for i := range 6 {
			h.create(func(n *contract.NewTask) {
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
