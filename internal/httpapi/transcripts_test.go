package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAWorkingFolderGoesUpUnderItsLeaseAndComesBack(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 4)
	r.fails(400, "invalid_request", "POST", "/llm-tasks", `{"context_id":"ctx","agent_slug":"a","prompt":"p","policy":{"workspace":"mine"}}`)
	post := func() (id, lease string) {
		var task bloom.Task
		r.call(201, &task, "POST", "/llm-tasks", `{"context_id":"ctx","agent_slug":"a","prompt":"p","policy":{"workspace":"context"}}`)
		if task.Policy.Workspace != bloom.WorkspaceContext {
			t.Errorf("policy %+v", task.Policy)
		}
		return task.ID, r.lease(task.ID).Lease.ID
	}
	id, l := post()
	path := "/llm-tasks/" + id + "/workspace"
	r.fails(404, "not_found", "GET", path+"/content?lease_id="+l, "")
	r.fails(409, "lease_lost", "PUT", path+"?lease_id="+id+"&sha256="+sumOf("x"), "x")
	var part bloom.TranscriptPart
	r.call(200, &part, "PUT", path+"?lease_id="+l+"&sha256="+sumOf("folder"), "folder")
	output := "done"
	complete := func(u bloom.WorkspaceUpdate) string {
		return string(storable.MustJSON(bloom.Completion{LeaseID: l, Status: "success", Output: &output, Workspace: &u}))
	}
	for _, u := range []bloom.WorkspaceUpdate{
		{Size: 1, SHA256: "sum", Parts: []bloom.TranscriptPart{{URL: strings.Replace(part.URL, l, id, 1)}}},
		{Size: 1, SHA256: "sum", Parts: []bloom.TranscriptPart{}},
		{Size: bloom.MaxWorkspace + 1, SHA256: "sum", Parts: []bloom.TranscriptPart{part}},
	} {
		r.fails(400, "invalid_request", "POST", "/llm-tasks/"+id+"/complete", complete(u))
	}
	r.call(200, nil, "POST", "/llm-tasks/"+id+"/complete", complete(bloom.WorkspaceUpdate{Size: 7, SHA256: "sum", Parts: []bloom.TranscriptPart{part}}))
	id, l = post()
	path = "/llm-tasks/" + id + "/workspace"
	var st bloom.WorkspaceState
	r.call(200, &st, "GET", path+"?lease_id="+l, "")
	if got := r.call(200, nil, "GET", path+"/content?lease_id="+l, ""); string(got.body) != "folder" || st.SHA256 != "sum" || st.Size != 7 {
		t.Errorf("the folder is %q, %+v", got.body, st)
	}
	var x bloom.Context
	r.call(200, &x, "GET", "/contexts/ctx", "")
	if x.Workspace != 7 || x.SessionID != nil {
		t.Errorf("the context is %+v", x)
	}
}

func TestATranscriptGoesUpUnderItsLeaseAndComesBack(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 4)
	session := "--continue"
	turn := func(after, body, whole string) bloom.Completed {
		task := r.task("")
		l := r.lease(task.ID).Lease.ID
		path := "/llm-tasks/" + task.ID + "/transcript"
		under := "?lease_id=" + l
		r.fails(409, "lease_lost", "PUT", path+"?lease_id="+contract.TranscriptFolder("x")+"&sha256="+sumOf(body), body)
		r.fails(400, "invalid_request", "PUT", path+under+"&sha256=12", body)
		var part bloom.TranscriptPart
		r.call(200, &part, "PUT", path+under+"&sha256="+sumOf(body), body)
		var st bloom.TranscriptState
		r.call(200, &st, "GET", path+under, "")
		if st.SHA256 != after {
			t.Errorf("the server has %+v", st)
		}
		output := "done"
		foreign := bloom.Completion{LeaseID: l, Status: "success", Output: &output, Transcript: &bloom.TranscriptUpdate{
			SessionID: "11111111-1111-4111-8111-111111111111", Size: 1, SHA256: whole, Parts: []bloom.TranscriptPart{{URL: strings.Replace(part.URL, l, task.ID, 1)}},
		}}
		r.fails(400, "invalid_request", "POST", "/llm-tasks/"+task.ID+"/complete", string(storable.MustJSON(foreign)))
		var done bloom.Completed
		c := bloom.Completion{
			LeaseID: l, Status: "success", Output: &output,
			Transcript: &bloom.TranscriptUpdate{SessionID: session, Size: int64(len(whole)), SHA256: whole, After: after, Parts: []bloom.TranscriptPart{part}},
		}
		r.call(200, &done, "POST", "/llm-tasks/"+task.ID+"/complete", string(storable.MustJSON(c)))
		r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", string(storable.MustJSON(c)))
		return done
	}
	turn("", "forged", "none") // the work counts, its conversation does not
	session = "11111111-1111-4111-8111-111111111111"
	turn("", "first ", "one")
	turn("one", "second", "two")
	task := r.task("")
	l := r.lease(task.ID).Lease.ID
	got := r.call(200, nil, "GET", "/llm-tasks/"+task.ID+"/transcript/content?lease_id="+l, "")
	if string(got.body) != "first second" || got.header.Get("ETag") != `"two"` {
		t.Errorf("the transcript is %q, %v", got.body, got.header)
	}
	r.fails(409, "lease_lost", "GET", "/llm-tasks/"+task.ID+"/transcript/content?lease_id=", "")
	var earlier []bloom.Exchange
	r.call(200, &earlier, "GET", "/llm-tasks/"+task.ID+"/earlier?lease_id="+l, "")
	if len(earlier) != 3 || earlier[0].Output != "done" {
		t.Errorf("earlier tasks: %+v", earlier)
	}
	r.fails(409, "conflict", "DELETE", "/contexts/ctx", "")
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"lease_id":"`+l+`","status":"error","error_message":"no"}`)
	r.call(200, nil, "DELETE", "/contexts/ctx", "")
	r.fails(404, "not_found", "GET", "/contexts/ctx", "")
	var claim bloom.ClaimResult
	r.call(200, &claim, "POST", "/workers/w1/claim", `{"instance_id":"w1-1","forgotten_after":0}`)
	if len(claim.Forgotten) != 1 || claim.Forgotten[0].ID != "ctx" {
		t.Errorf("a worker gets %+v", claim.Forgotten)
	}
	seq := claim.Forgotten[0].Seq
	r.task("") // uses the context again
	for _, known := range []struct {
		seq  int64
		id   string
		list int
		all  bool
	}{
		{seq, "ctx", 0, false},
		{seq, "of another database", 1, true},
		{seq + 7, "forgotten after the backup that was restored", 1, true},
		{seq, "", 0, false}, // a worker of an earlier version
	} {
		claim = bloom.ClaimResult{}
		r.clock.by.Add(int64(3 * time.Second)) // the last answer is cached for two
		r.call(200, &claim, "POST", "/workers/w1/claim", string(storable.MustJSON(map[string]any{"instance_id": "w1-1", "forgotten_after": known.seq, "forgotten_id": known.id})))
		if len(claim.Forgotten) != known.list || claim.ForgottenAll != known.all || known.list > 0 && !claim.Forgotten[0].Used {
			t.Errorf("a worker that knows %d %q gets %+v, %v", known.seq, known.id, claim.Forgotten, claim.ForgottenAll)
		}
	}
}

// Uploads are swept a day after their lease began, if no context names them by then. They are
// missing where servers do not share a folder.
func TestACompletionCountsWithoutUploadsThatAreGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late    time.Duration
		gone    bool
		expired bool
		kept    string
	}{"in time": {23 * time.Hour, false, false, "second"}, "late": {25 * time.Hour, false, false, "first"}, "missing": {0, true, false, "first"}, "missing after the lease": {time.Hour, true, true, "first"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			r.worker("w1", 4)
			turn := func(after, whole string, late time.Duration, gone, expired bool) string {
				task := r.task("")
				l := r.lease(task.ID).Lease.ID
				path := "/llm-tasks/" + task.ID
				put := func(what string) (part bloom.TranscriptPart) {
					r.call(200, &part, "PUT", path+what+"?lease_id="+l+"&sha256="+sumOf(whole), whole)
					return part
				}
				output := "done"
				completion := string(storable.MustJSON(bloom.Completion{LeaseID: l, Status: "success", Output: &output,
					Transcript: &bloom.TranscriptUpdate{SessionID: "11111111-1111-4111-8111-111111111111", Size: int64(len(whole)), SHA256: whole, After: after, Parts: []bloom.TranscriptPart{put("/transcript")}},
					Workspace:  &bloom.WorkspaceUpdate{Size: int64(len(whole)), SHA256: whole, After: after, Parts: []bloom.TranscriptPart{put("/workspace")}}}))
				r.clock.by.Add(int64(late))
				if gone {
					days, err := filepath.Glob(filepath.Join(r.dir, "artifacts", "*", "transcripts"))
					must(t, err)
					for _, day := range days {
						must(t, os.RemoveAll(day))
					}
				}
				if expired {
					if did, err := r.store.Reap(t.Context(), 10); err != nil || did.Requeued != 1 {
						t.Fatalf("reaped %+v, %v", did, err)
					}
				}
				var done bloom.Completed
				for range 2 { // the second one gets the same response
					r.call(200, &done, "POST", path+"/complete", completion)
				}
				if done.Task.Status != bloom.TaskCompleted || *done.Result.Output != "done" {
					t.Errorf("completed %+v", done)
				}
				return task.ID
			}
			turn("", "first", 0, false, false)
			id := turn("first", "second", c.late, c.gone, c.expired)
			kept, err := r.store.Transcript(t.Context(), "ctx")
			must(t, err)
			if kept.SHA256 != c.kept || kept.Workspace.SHA256 != c.kept {
				t.Errorf("the context's transcript is %q and its folder %q, want %q", kept.SHA256, kept.Workspace.SHA256, c.kept)
			}
			if said := strings.Contains(r.log.String(), "an upload is missing"); said != c.gone {
				t.Errorf("the log says that an upload is missing: %v", said)
			}
			events := string(r.call(200, nil, "GET", "/llm-tasks/"+id+"/events", "", "Accept", "application/x-ndjson").body)
			for _, typ := range []string{bloom.EventTranscript, bloom.EventWorkspace} {
				if present := strings.Contains(events, typ); present != (c.kept == "first") {
					t.Errorf("%s is in the events: %v\n%s", typ, present, events)
				}
			}
		})
	}
}
