package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// index updates the search index; contents has the content of the blob store.
func (h *harness) index(contents map[string]string) {
	h.Helper()
	for more := true; more; {
		var err error
		_, more, err = h.s.IndexTasks(h.ctx, func(_ context.Context, url string, _ int) (string, error) {
			if text, ok := contents[url]; ok {
				return text, nil
			}
			return "", errors.New("the storage is unavailable")
		})
		h.ok(err)
	}
}

func (h *harness) finds(text string, want ...string) {
	h.Helper()
	if got := h.walk(bloom.TaskQuery{Text: text, Page: bloom.Page{Limit: 10}}, func() {}); !slices.Equal(got, want) {
		h.Errorf("%q finds %v, want %v", text, got, want)
	}
}

func prompt(text string) func(*contract.NewTask) {
	return func(n *contract.NewTask) { n.Spec.Prompt = text }
}

// placed completes a task whose output is in the blob store.
func (h *harness) placed(taskID, worker, url string) {
	h.Helper()
	r := success(taskID, h.lease(taskID, worker).ID, url)
	r.Content, r.URL = nil, &url
	h.complete(r)
}

var searchTests = map[string]func(*harness){
	"words, phrases and prefixes are found, in any case and language": func(h *harness) {
		a := h.create(prompt("Fix the Parser, 100% of it; see internal/store/main.go"))
		b := h.create(prompt("Почини ПАРСЕР у файлі"))
		c := h.create(prompt("東京タワーを見る"))
		h.index(nil)
		for text, want := range map[string][]string{
			"fix THE": {a.ID}, "парсер": {b.ID}, "пар": {b.ID}, "пар ": nil, "100%": {a.ID}, "1_0": nil, a.ID: {a.ID}, a.ID[24:]: {a.ID}, "nothing": nil,
			`"the parser"`: {a.ID}, `"parser the"`: nil, "parser the": {a.ID}, "main": {a.ID}, "store/main.go": {a.ID}, "タワー": {c.ID}, "京タ": {c.ID}, "京東": nil,
			"fix парсер": nil, "pars* it ": {a.ID}, "-": nil, `"`: nil, `' OR 1=1 --`: nil, `a:b & ! ( | <-> \ NEAR("x" "y")`: nil, "fix AND the": nil,
			strings.Repeat("fix ", 10_000): {a.ID}, strings.Repeat("x", 100_000): nil,
		} {
			h.finds(text, want...)
		}
		h.finds("of", a.ID)
	},
	"outputs and error messages are found, those of the newest result": func(h *harness) {
		h.worker("w", 9)
		done, failed := h.create(prompt("one")), h.create(prompt("two"))
		h.index(nil)
		h.complete(success(done.ID, h.lease(done.ID, "w").ID, "All walruses were counted"))
		h.complete(failure(failed.ID, h.lease(failed.ID, "w").ID, "The walrus bit the worker", false))
		h.index(nil)
		h.finds("walrus", failed.ID, done.ID)
		h.finds("one walruses", done.ID)
		h.finds("walrus ", failed.ID)
		_, err := h.s.Requeue(h.ctx, failed.ID, "x")
		h.ok(err)
		h.complete(success(failed.ID, h.lease(failed.ID, "w").ID, "Feathers instead"))
		h.index(nil)
		h.finds("walrus", done.ID)
		h.finds("feathers", failed.ID)
		texts, err := h.s.TaskTexts(h.ctx, []string{failed.ID, newID(), "nonsense"})
		h.ok(err)
		if len(texts) != 1 || texts[0].Prompt != "two" || texts[0].Output != "Feathers instead" {
			h.Errorf("the texts are %+v", texts)
		}
	},
	"a search combines with other conditions and pages, newest first": func(h *harness) {
		var all, odd []string
		for i := range 700 {
			t := h.create(func(n *contract.NewTask) {
				n.Spec.Prompt, n.Spec.AgentSlug = fmt.Sprintf("common word%d", i), []string{"even", "odd"}[i%2]
			})
			if all = append(all, t.ID); i%2 == 1 {
				odd = append(odd, t.ID)
			}
		}
		h.index(nil)
		slices.Reverse(all)
		slices.Reverse(odd)
		h.finds("common", all...)
		h.finds("word699", all[0])
		h.finds("word0 ", all[699])
		if got := h.walk(bloom.TaskQuery{Text: "common", AgentSlug: "odd", Status: bloom.TaskQueued, Page: bloom.Page{Limit: 100}}, func() {}); !slices.Equal(got, odd) {
			h.Errorf("%d of an agent's are found, want %d", len(got), len(odd))
		}
		if got := h.walk(bloom.TaskQuery{Text: "common", Status: bloom.TaskFailed, Page: bloom.Page{Limit: 10}}, func() {}); len(got) != 0 {
			h.Errorf("%d are found among the failed", len(got))
		}
	},
	"an output in the blob store is found, also after an outage of the storage": func(h *harness) {
		h.worker("w", 9)
		there, missing := h.create(prompt("one")), h.create(prompt("two"))
		h.placed(there.ID, "w", "file:there")
		h.placed(missing.ID, "w", "file:missing")
		h.index(map[string]string{"file:there": "a walrus"})
		h.finds("walrus", there.ID)
		h.finds("two", missing.ID)
		h.index(map[string]string{"file:missing": "a walrus"})
		h.finds("walrus", there.ID) // not yet: it is retried after a while
		h.advance(2 * time.Minute)
		h.index(map[string]string{"file:missing": "a walrus"})
		h.finds("walrus", missing.ID, there.ID)
	},
	"a removed task leaves the index": func(h *harness) {
		h.worker("w", 9)
		old := h.create(prompt("an old walrus"))
		h.finish(old.ID, "w")
		h.index(nil)
		h.advance(48 * time.Hour)
		h.removeTasks()
		h.finds("walrus")
		h.index(nil)
		h.finds("walrus")
		if n, ok := h.s.(interface {
			Indexed(context.Context) (int, error)
		}); ok {
			left, err := n.Indexed(h.ctx)
			h.ok(err)
			same(h, "tasks in the index", left, 0)
		}
	},
	"only the beginning of long texts is searched": func(h *harness) {
		long := strings.Repeat("дерево трава word ", 20_000)
		t := h.create(prompt("first " + long + " last"))
		unique := h.create(func(n *contract.NewTask) {
			var b strings.Builder
			for i := range 60_000 {
				fmt.Fprintf(&b, "w%d ", i)
			}
			n.Spec.Prompt = b.String()
		})
		h.index(nil)
		h.finds("first", t.ID)
		h.finds("дерево", t.ID)
		h.finds("last")
		h.finds("w59999")
		h.finds("w4711 ", unique.ID)
	},
}

// searchTasks is the number of tasks that BenchSearch searches.
const searchTasks = 100_000

// BenchSearch fills a store with tasks, half of them completed, and indexes prompts and
// outputs. It reports the median and the 99th percentile of searches for a page of 50, in
// microseconds. bytes returns the sizes of the index and of all other tables.
func BenchSearch(b *testing.B, s contract.Store, bytes func() (index, others int64)) {
	ctx := context.Background()
	AddWorkers(b, s, 8)
	var all sync.WaitGroup
	for c := range 64 {
		all.Go(func() {
			for i := c; i < searchTasks; i += 64 {
				n := Plain(fmt.Sprint("context-", i%1000))
				// Every word of w0 … w9999 in ten tasks, a common one in all.
				n.Spec.Prompt = fmt.Sprintf("Write a common line about w%d and v%d in the town of t%d by the sea.", i%10_000, i%100, i)
				_, _, err := s.CreateTask(ctx, n)
				if err == nil && i%2 == 0 {
					err = answered(ctx, s, n.ID, fmt.Sprintf("The ships of r%d came in at noon, and o%d of them left again.", i%10_000, i))
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	began := time.Now()
	for more := true; more; {
		var err error
		if _, more, err = s.IndexTasks(ctx, func(context.Context, string, int) (string, error) { return "", nil }); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	index, others := bytes()
	b.Logf("%.0f tasks a second into the index; it has %.1f MB, the other tables %.1f MB", searchTasks/took.Seconds(), float64(index)/1e6, float64(others)/1e6)
	for name, text := range map[string]string{"rare": "w4711 ", "prefix": "w471", "common": "common ", "both": "common v17 ", "phrase": `"the town of t777"`, "none": "missing ",
		"rare-output": "r4710 ", "common-output": "ships "} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, _, err := s.Tasks(ctx, bloom.TaskQuery{Text: text, Page: bloom.Page{Limit: 50, TextBytes: 300}}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// answered completes a task with an output.
func answered(ctx context.Context, s contract.Store, taskID, output string) error {
	l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: taskID, Actor: "bench"})
	if err != nil {
		return err
	}
	done := Success(taskID, l.ID)
	done.Content, done.Completion.Output, done.Size = &output, &output, int64(len(output))
	_, err = s.Complete(ctx, done)
	return err
}
