package httpapi_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

// index updates the search index, as a server's loop does.
func (r *fixture) index() {
	r.t.Helper()
	for more := true; more; {
		var err error
		_, more, err = r.store.IndexTasks(context.Background(), r.service.Content.Read)
		must(r.t, err)
	}
}

func TestSearchFindsWordsInPromptsAndOutputs(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w", 9)
	a := r.task(`,"prompt":"Count the walruses <script>alert(1)</script> in the zoo"`)
	r.lease(a.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+a.ID+"/complete", `{"status":"success","output":"There are seven WALRUSES. `+strings.Repeat("They sleep. ", 40_000)+`","metrics":{"duration_ms":1}}`)
	b := r.task(`,"prompt":"Порахуй моржів","agent_slug":"counter"`)
	r.index()
	search := func(q, more string) (found []bloom.Task) {
		t.Helper()
		r.call(200, &found, "GET", "/llm-tasks?q="+url.QueryEscape(q)+more, "")
		return found
	}
	show := func(s *bloom.Snippet) (text string) {
		if s == nil {
			return ""
		}
		for _, p := range s.Parts {
			if p.Match {
				text += "[" + p.Text + "]"
			} else {
				text += p.Text
			}
		}
		return s.In + ": " + text
	}
	for q, want := range map[string]string{
		"walruses script": "prompt: Count the [walruses] <[script]>alert(1)</[script]> in the zoo",
		`"seven walrus`:   "",
		`"are seven" wal`: "output: There [are seven] [WALRUSES]. They sleep. They sleep.",
		"морж":            "prompt: Порахуй [моржів]",
		b.ID[20:]:         "",
	} {
		found := search(q, "")
		if want == "" && !strings.Contains(b.ID, q) {
			if len(found) != 0 {
				t.Errorf("%q finds %+v", q, found)
			}
			continue
		}
		if len(found) != 1 || !strings.HasPrefix(show(found[0].Snippet), want) {
			t.Errorf("%q finds %d: %q, want %q", q, len(found), show(found[0].Snippet), want)
		}
	}
	if got := search("walruses", "&status=queued"); len(got) != 0 {
		t.Errorf("a completed task is found among the queued: %+v", got)
	}
	if got := search("морж", "&agent_slug=counter&limit=1"); len(got) != 1 {
		t.Errorf("%d of the agent's are found", len(got))
	}
	for _, q := range []string{`"`, `""`, `*`, `a AND OR NOT (`, `' ; DROP TABLE words; --`, "NEAR(a b, 2)", "{prompt}: x", "\xff\xfe", strings.Repeat("x ", 3000), "\x00", "^a + b", "#12-0", "words:x"} {
		if got := search(q, ""); got == nil {
			t.Errorf("%q is answered by null", q)
		}
	}
}

func TestASearchGoesOnFromPageToPage(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for range 25 {
		r.task(`,"prompt":"a common word"`)
	}
	r.index()
	seen, next := map[string]bool{}, "/api/runtime/llm-tasks?q=common&limit=10"
	for pages := 0; next != ""; pages++ {
		var page []bloom.Task
		a := r.call(200, &page, "GET", strings.TrimPrefix(next, "/api/runtime"), "")
		for _, task := range page {
			if seen[task.ID] || task.Snippet == nil {
				t.Fatalf("%s comes twice, or has no snippet", task.ID)
			}
			seen[task.ID] = true
		}
		next = strings.TrimPrefix(strings.Split(a.header.Get("Link"), ">")[0], "<")
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
	}
	if len(seen) != 25 {
		t.Errorf("found %d of 25", len(seen))
	}
}

func TestASearchWorksWhileTheBlobStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.task(`,"prompt":"one walrus"`)
	_, _, err := r.store.IndexTasks(t.Context(), func(context.Context, string, int) (string, error) { return "", errors.New("unavailable") })
	must(t, err)
	var found []bloom.Task
	r.call(200, &found, "GET", "/llm-tasks?q=walrus", "")
	if len(found) != 1 {
		t.Errorf("found %d", len(found))
	}
}
