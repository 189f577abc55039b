package httpapi_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (r *fixture) finish(output string) bloom.Completed {
	r.t.Helper()
	task := r.task("")
	l := r.lease(task.ID)
	var done bloom.Completed
	body := storable.MustJSON(bloom.Completion{LeaseID: l.Lease.ID, Status: "success", Output: &output})
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", string(body))
	return done
}

func (r *fixture) files() (n int) {
	r.t.Helper()
	must(r.t, filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	}))
	return n
}

func TestLargeContentIsStoredInTheBlobStore(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 4)
	small, large := strings.Repeat("s", contract.InlineContentLimit), strings.Repeat("ä", contract.InlineContentLimit)
	if done := r.finish(small); done.Artifact.Content == nil || done.Artifact.URL != nil || r.files() != 0 {
		t.Fatalf("small content lies at %v", done.Artifact.URL)
	}
	done := r.finish(large)
	if done.Artifact.Content != nil || done.Artifact.URL == nil || done.Artifact.Size != int64(len(large)) || r.files() != 1 {
		t.Fatalf("large content lies at %v", done.Artifact.URL)
	}
	if *done.Result.Output != large {
		t.Fatal("the completion's answer lost the output")
	}
	var results []bloom.Result
	r.call(200, &results, "GET", "/llm-tasks/"+done.Task.ID+"/results", "")
	if *results[0].Output != large {
		t.Fatal("the result lost the output")
	}
	a := r.call(200, nil, "GET", "/artifacts/"+done.Artifact.ID+"/content", "")
	if string(a.body) != large || a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("content of %d bytes with %v", len(a.body), a.header)
	}
	var list []bloom.Artifact
	r.call(200, &list, "GET", "/artifacts?task_id="+done.Task.ID, "")
	if len(list) != 1 || list[0].ID != done.Artifact.ID {
		t.Fatalf("artifacts of the task: %+v", list)
	}
	// Refused and repeated completions leave no files behind.
	body := storable.MustJSON(bloom.Completion{LeaseID: *done.Task.LeaseID, Status: "success", Output: &large})
	r.call(200, nil, "POST", "/llm-tasks/"+done.Task.ID+"/complete", string(body))
	other := large + "!"
	body = storable.MustJSON(bloom.Completion{LeaseID: *done.Task.LeaseID, Status: "success", Output: &other})
	r.fails(409, "already_completed", "POST", "/llm-tasks/"+done.Task.ID+"/complete", string(body))
	if r.files() != 1 {
		t.Fatalf("%d files of one artifact", r.files())
	}
}

func TestAlteredContentIsNeverServedWhole(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 4)
	done := r.finish(strings.Repeat("x", contract.InlineContentLimit+1))
	path := filepath.Join(r.dir, "artifacts", strings.TrimPrefix(*done.Artifact.URL, "file:"))
	must(t, os.WriteFile(path, []byte(strings.Repeat("y", contract.InlineContentLimit+1)), 0o600))
	res, err := r.client.Do(r.request("GET", "/api/runtime/artifacts/"+done.Artifact.ID+"/content", ""))
	must(t, err)
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err == nil && len(got) > contract.InlineContentLimit {
		t.Fatal("altered content was served as if it were whole")
	}
	must(t, os.Remove(path))
	r.fails(404, "not_found", "GET", "/artifacts/"+done.Artifact.ID+"/content", "")
}

func TestInvalidTextIsCleaned(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 4)
	var task bloom.Task
	r.call(201, &task, "POST", "/llm-tasks", "{\"context_id\":\"c\\u0000\",\"agent_slug\":\"a\",\"prompt\":\"nul \\u0000 lone \\ud800 raw \xff end\"}")
	if task.Prompt != "nul \uFFFD lone \uFFFD raw \uFFFD end" || task.ContextID != "c\uFFFD" {
		t.Fatalf("stored as %q", task.Prompt)
	}
	var found []bloom.Task
	r.index()
	if r.call(200, &found, "GET", "/llm-tasks?context_id=c%00&q=nul+%00", ""); len(found) != 1 {
		t.Fatalf("%d tasks have the context's name as it was sent", len(found))
	}
	var worker bloom.Worker
	r.call(201, &worker, "POST", "/workers", `{"name":"w2","agent_version":"1\u0000","ip_addrs":["\ud800"],"capabilities":{"labels":["l\u0000"]}}`)
	if worker.AgentVersion != "1\uFFFD" || worker.IPAddrs[0] != "\uFFFD" || worker.Capabilities.Labels[0] != "l\uFFFD" {
		t.Fatalf("registered as %+v", worker)
	}
	l := r.lease(task.ID)
	events := "{\"seq\":1,\"type\":\"text\",\"at\":1,\"data\":{\"t\":\"\\u0000\\ud800\xff\",\"n\":12345678901234567890}}\n\n" +
		`{"seq":2,"type":"text","at":2,"data":{"text":"` + strings.Repeat("long ", 500_000) + `","keep":1}}` + "\n" +
		`{"seq":3,"type":"log","at":3}`
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/events?lease_id="+l.Lease.ID, events, "Content-Type", "application/x-ndjson")
	body := "{\"lease_id\":\"" + l.Lease.ID + "\",\"status\":\"error\",\"error_message\":\"\\u0000\xfe\",\"output\":\"\\ud800\"}"
	var done bloom.Completed
	r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", body)
	if *done.Result.ErrorMessage != "\uFFFD\uFFFD" || *done.Artifact.Content != "\uFFFD" || done.Artifact.Type != bloom.DefaultArtifactType || done.Artifact.Tags == nil {
		t.Fatalf("the outcome is kept as %+v and %+v", done.Result, done.Artifact)
	}
	got := r.events(task.ID, "")
	if len(got) != 6 { // created, leased, three from the worker, failed
		t.Fatalf("%d events", len(got))
	}
	if s := string(got[2].Data); !strings.Contains(s, "\uFFFD") || strings.Contains(s, "\\u0000") || !strings.Contains(s, "12345678901234567890") {
		t.Fatalf("poison event stored as %s", s)
	}
	if s := got[3].Data; len(s) > bloom.MaxEventData || !strings.Contains(string(s), `"truncated":true`) || !strings.Contains(string(s), `"keep":1`) {
		t.Fatalf("a long event was kept with %d bytes", len(s))
	}
}

// events reads a finished task's stream as lines.
func (r *fixture) events(taskID, after string) (events []bloom.Event) {
	r.t.Helper()
	a := r.call(200, nil, "GET", "/llm-tasks/"+taskID+"/events?after="+after, "", "Accept", "application/x-ndjson")
	for line := range strings.Lines(string(a.body)) {
		var e bloom.Event
		must(r.t, json.Unmarshal([]byte(line), &e))
		events = append(events, e)
	}
	return events
}

func TestPagesFollowTheLink(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var want, got []string
	for range 7 {
		want = append([]string{r.task("").ID}, want...)
	}
	r.call(201, nil, "POST", "/llm-tasks", `{"context_id":"elsewhere","agent_slug":"coder","prompt":"p"}`)
	path := "/api/runtime/llm-tasks?limit=3&context_id=ctx"
	for path != "" {
		a := r.do("GET", path, "")
		var tasks []bloom.Task
		must(t, json.Unmarshal(a.body, &tasks))
		if len(tasks) > 3 {
			t.Fatalf("a page of 3 has %d entries", len(tasks))
		}
		for _, task := range tasks {
			got = append(got, task.ID)
		}
		path = ""
		if link := a.header.Get("Link"); link != "" {
			path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}
