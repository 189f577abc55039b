package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/content"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// change is one request that changes something, with a key that the audit must name.
type change struct {
	actions []string // expected in the audit
	do      func(r *fixture, key string)
}

// unaudited are the routes without an audit entry, each with the reason.
var unaudited = map[string]string{
	"POST /api/runtime/artifacts/verify":         "it only reads",
	"POST /api/runtime/llm-tasks/{id}/dispatch":  "it changes nothing",
	"POST /api/runtime/llm-tasks/{id}/events":    "the task's stream is the record, which names its worker's lease",
	"PUT /api/runtime/llm-tasks/{id}/transcript": "a part counts only once the completion names it, and that is audited",
	"PUT /api/runtime/llm-tasks/{id}/workspace":  "a part counts only once the completion names it, and that is audited",
	"POST /api/runtime/workers/{id}/logs":        "they are a worker's own lines, of which the last are kept",
}

// leasedTask creates a task that is leased to w1.
func (r *fixture) leasedTask() (at, lease string) {
	r.t.Helper()
	task := r.task("")
	return "/llm-tasks/" + task.ID, r.lease(task.ID).Lease.ID
}

// changes are all changing routes that are audited.
func changes() map[string]change {
	request := func(want int, method, path, body string) func(*fixture, string) {
		return func(r *fixture, key string) { r.call(want, nil, method, path, body, auth.HeaderKey, key) }
	}
	ofLease := func(want int, path, body string) func(*fixture, string) {
		return func(r *fixture, key string) {
			at, lease := r.leasedTask()
			r.call(want, nil, "POST", at+path, strings.ReplaceAll(body, "LEASE", lease), auth.HeaderKey, key)
		}
	}
	ofTask := func(path, body string, before ...string) func(*fixture, string) {
		return func(r *fixture, key string) {
			task := r.task("")
			for _, b := range before {
				r.call(200, nil, "POST", "/llm-tasks/"+task.ID+b, "")
			}
			r.call(200, nil, "POST", strings.ReplaceAll(path, "TASK", task.ID), strings.ReplaceAll(body, "TASK", task.ID), auth.HeaderKey, key)
		}
	}
	membridge := func(path, body string) func(*fixture, string) {
		return func(r *fixture, key string) {
			if a := r.do("POST", "/api/membridge"+path, body, auth.HeaderKey, key); a.status != http.StatusOK {
				r.t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	return map[string]change{
		"POST /api/runtime/llm-tasks":                  {[]string{"task_created"}, request(201, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`)},
		"POST /api/runtime/llm-tasks/{id}/cancel":      {[]string{"task_cancelled"}, ofTask("/llm-tasks/TASK/cancel", "")},
		"POST /api/runtime/llm-tasks/{id}/requeue":     {[]string{"task_requeued"}, ofTask("/llm-tasks/TASK/requeue", "", "/cancel")},
		"POST /api/runtime/llm-tasks/cancel":           {[]string{"task_cancelled"}, ofTask("/llm-tasks/cancel", `{"ids":["TASK"]}`)},
		"POST /api/runtime/llm-tasks/requeue":          {[]string{"task_requeued"}, ofTask("/llm-tasks/requeue", `{"ids":["TASK"]}`, "/cancel")},
		"POST /api/runtime/llm-tasks/cancel-matching":  {[]string{"tasks_matched", "task_cancelled"}, ofTask("/llm-tasks/cancel-matching", `{"context_id":"ctx","status":"queued"}`)},
		"POST /api/runtime/llm-tasks/requeue-matching": {[]string{"tasks_matched", "task_requeued"}, ofTask("/llm-tasks/requeue-matching", `{"context_id":"ctx"}`, "/cancel")},
		"POST /api/runtime/llm-tasks/{id}/lease": {[]string{"task_leased"}, func(r *fixture, key string) {
			r.call(201, nil, "POST", "/llm-tasks/"+r.task("").ID+"/lease", `{"worker_id":"w1"}`, auth.HeaderKey, key)
		}},
		"POST /api/runtime/llm-tasks/{id}/heartbeat": {[]string{"task_started"}, ofLease(200, "/heartbeat", `{"lease_id":"LEASE"}`)},
		"POST /api/runtime/llm-tasks/{id}/release":   {[]string{"task_released"}, ofLease(200, "/release", `{"lease_id":"LEASE","reason":"full"}`)},
		"POST /api/runtime/llm-tasks/{id}/complete":  {[]string{"task_completed"}, ofLease(200, "/complete", `{"lease_id":"LEASE","status":"success","output":"o"}`)},
		"POST /api/runtime/llm-tasks/{id}/ask":       {[]string{"approval_asked"}, ofLease(200, "/ask", askBody)},
		"POST /api/runtime/approvals/{id}": {[]string{"approval_decided"}, func(r *fixture, key string) {
			_, _, a := r.asked(askBody)
			r.call(200, nil, "POST", "/approvals/"+a.ID, `{"decision":"allow","input_sha256":"`+a.InputSHA256+`"}`, auth.HeaderKey, key)
		}},
		"POST /api/runtime/llm-tasks/{id}/suspend": {[]string{"task_suspended"}, func(r *fixture, key string) {
			at, lease, a := r.asked(askBody)
			r.call(200, nil, "POST", at+"/suspend", `{"lease_id":"`+lease+`","approval_id":"`+a.ID+`","transcript":{"session_id":"01990a3e-7c1a-7f00-8a10-00000000000c","size":1,"sha256":"x","base":""}}`, auth.HeaderKey, key)
		}},
		"PUT /api/runtime/llm-tasks/{id}/artifacts": {[]string{"artifact_added"}, func(r *fixture, key string) {
			at, lease := r.leasedTask()
			r.call(200, nil, "PUT", at+"/artifacts?lease_id="+lease+"&path=f&sha256="+sumOf("x"), "x", auth.HeaderKey, key)
		}},
		"POST /api/runtime/workers/{id}/claim": {[]string{"task_leased"}, func(r *fixture, key string) {
			r.task("")
			r.call(200, nil, "POST", "/workers/w1/claim", `{"max":1}`, auth.HeaderKey, key)
		}},
		"POST /api/runtime/workers":            {[]string{"worker_registered"}, request(201, "POST", "/workers", `{"name":"w2"}`)},
		"POST /api/runtime/workers/{id}/drain": {[]string{"worker_drain"}, request(200, "POST", "/workers/w1/drain", `{"drain":true}`)},
		"DELETE /api/runtime/workers/{id}":     {[]string{"worker_removed"}, request(200, "DELETE", "/workers/w1", "")},
		"DELETE /api/runtime/contexts/{id}": {[]string{"context_forgotten"}, func(r *fixture, key string) {
			at, lease := r.leasedTask()
			r.call(200, nil, "POST", at+"/complete", `{"lease_id":"`+lease+`","status":"success","output":"o"}`)
			r.call(200, nil, "DELETE", "/contexts/ctx", "", auth.HeaderKey, key)
		}},
		"PATCH /api/runtime/contexts/{id}": {[]string{"context_changed"}, func(r *fixture, key string) {
			r.task("")
			r.call(200, nil, "PATCH", "/contexts/ctx", `{"name":"Mine"}`, auth.HeaderKey, key)
		}},
		"PUT /api/runtime/schedules/{name}": {[]string{"schedule_saved"}, request(200, "PUT", "/schedules/s", aSchedule)},
		"DELETE /api/runtime/schedules/{name}": {[]string{"schedule_removed"}, func(r *fixture, key string) {
			r.call(200, nil, "PUT", "/schedules/s", aSchedule)
			r.call(200, nil, "DELETE", "/schedules/s", "", auth.HeaderKey, key)
		}},
		"POST /api/runtime/schedules/{name}/run": {[]string{"task_created", "schedule_started"}, func(r *fixture, key string) {
			r.call(200, nil, "PUT", "/schedules/s", aSchedule)
			r.call(201, nil, "POST", "/schedules/s/run", "", auth.HeaderKey, key)
		}},
		"POST /api/runtime/schedules/{name}/pause": {[]string{"schedule_saved"}, func(r *fixture, key string) {
			r.call(200, nil, "PUT", "/schedules/s", aSchedule)
			r.call(200, nil, "POST", "/schedules/s/pause", "", auth.HeaderKey, key)
		}},
		"POST /api/runtime/schedules/{name}/resume": {[]string{"schedule_saved"}, func(r *fixture, key string) {
			r.call(200, nil, "PUT", "/schedules/s", strings.Replace(aSchedule, "{", `{"paused":true,`, 1))
			r.call(200, nil, "POST", "/schedules/s/resume", "", auth.HeaderKey, key)
		}},
		"PUT /api/runtime/filters/{name}": {[]string{"filter_saved"}, request(200, "PUT", "/filters/f", `{"status":"failed"}`)},
		"DELETE /api/runtime/filters/{name}": {[]string{"filter_removed"}, func(r *fixture, key string) {
			r.call(200, nil, "PUT", "/filters/f", `{"status":"failed"}`)
			r.call(200, nil, "DELETE", "/filters/f", "", auth.HeaderKey, key)
		}},
		"POST /api/runtime/config":          {[]string{"config_updated"}, request(200, "POST", "/config", `{"membridge_server_url":"http://127.0.0.1:1","admin_key":"k-0123456789"}`)},
		"POST /api/runtime/test-connection": {[]string{"connection_test"}, request(200, "POST", "/test-connection", "")},
		"POST /api/runtime/keys":            {[]string{"key_created"}, request(201, "POST", "/keys", `{"name":"n","role":"viewer"}`)},
		"DELETE /api/runtime/keys/{id}": {[]string{"key_revoked"}, func(r *fixture, key string) {
			r.call(200, nil, "DELETE", "/keys/"+r.newKey(auth.RoleViewer).ID, "", auth.HeaderKey, key)
		}},
		"POST /api/runtime/session": {[]string{"login"}, func(r *fixture, key string) {
			r.call(200, nil, "POST", "/session", `{"key":"`+key+`"}`, auth.HeaderKey, key)
		}},
		"DELETE /api/runtime/session": {[]string{"session_ended"}, func(r *fixture, key string) {
			cookie := cookieOf(r.t, r.call(200, nil, "POST", "/session", `{"key":"`+key+`"}`))
			r.call(200, nil, "DELETE", "/session", "", auth.HeaderKey, "", "Cookie", cookie)
		}},
		"DELETE /api/runtime/sessions/{id}": {[]string{"session_ended"}, func(r *fixture, key string) {
			r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`)
			var sessions []bloom.BrowserSession
			r.call(200, &sessions, "GET", "/sessions", "")
			r.call(200, nil, "DELETE", "/sessions/"+sessions[0].ID, "", auth.HeaderKey, key)
		}},
		"POST /api/runtime/secrets/rotate":                     {[]string{"secrets_rotated"}, request(200, "POST", "/secrets/rotate", `{}`)},
		"POST /api/runtime/artifacts/move":                     {[]string{"artifacts_moved"}, request(200, "POST", "/artifacts/move", "")},
		"POST /api/membridge/projects/{cid}/leadership/select": {[]string{"leadership_promote"}, membridge("/projects/abc/leadership/select", `{"primary_node_id":"n1"}`)},
		"POST /api/membridge/sync/pull":                        {[]string{"sync_requested"}, membridge("/sync/pull", `{"project":"p","agent":"a"}`)},
		"POST /api/membridge/sync/push":                        {[]string{"sync_requested"}, membridge("/sync/push", `{"project":"p","agent":"a"}`)},
	}
}

// For every route that changes something, the audit has the key's name and id and the address.
const aSchedule = `{"every_sec":3600,"task":{"context_id":"c","agent_slug":"a","prompt":"p"}}`

func TestEveryChangeIsAuditedWithItsKeyAndAddress(t *testing.T) {
	t.Parallel()
	changes := changes()
	routes := newFixture(t).api.Policies()
	for route := range routes {
		_, audited := changes[route]
		_, excused := unaudited[route]
		if !strings.HasPrefix(route, "GET ") && !audited && !excused {
			t.Errorf("%s changes something, and nobody has decided what the audit says", route)
		}
	}
	for route, s := range changes {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			policy, there := routes[route]
			if !there {
				t.Fatal("there is no such route")
			}
			r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, h *httpapi.Config) {
				d.MaxFile, d.Contents, d.Objects = 1<<20, moves{}, inFolder{d.Blobs}
				d.Membridge = &bridge{}
				h.Proxy = &proxy{status: 200, answer: `{"ok":true,"canonical_id":"abc","primary_node_id":"n1","job_id":"j1"}`}
			})
			r.worker("w1", 8)
			role := auth.RoleAdmin
			for _, narrow := range []auth.Role{auth.RoleClient, auth.RoleWorker} {
				if policy.Allows(narrow) && !policy.Open() {
					role = narrow
				}
			}
			k, err := auth.CreateKey(t.Context(), r.store, bloom.KeySpec{Name: "of ann", Role: role}, "test", timing.Millis(r.clock.Now()), true)
			must(t, err)
			s.do(r, k.Key)
			r.wantAudited(s.actions, k)
		})
	}
}

// wantAudited looks for an entry of each action, made with the key.
func (r *fixture) wantAudited(actions []string, k bloom.CreatedKey) {
	r.t.Helper()
	var entries []bloom.Audit
	r.call(200, &entries, "GET", "/audit?limit=1000", "")
	for _, action := range actions {
		var got []bloom.Audit
		for _, e := range entries {
			if e.Action == action && e.KeyID == k.ID {
				got = append(got, e)
			}
		}
		if len(got) != 1 {
			raw, _ := json.Marshal(entries)
			r.t.Errorf("%d entries %s of the key; there are %s", len(got), action, raw)
			continue
		}
		actor := k.Name
		if k.Role == auth.RoleWorker { // many workers may share a key: then the audit names the worker
			actor = "w1"
			if action == audit.ActionWorkerRegistered {
				actor = "w2"
			}
		}
		if diff := cmp.Diff([]string{actor, "127.0.0.1"}, []string{got[0].Actor, got[0].Address}); diff != "" {
			r.t.Errorf("%s names another actor or address:\n%s", action, diff)
		}
	}
}

// moves has nothing to move.
type moves struct{ content.Sweeper }

func (moves) Move(context.Context, bool, func(bloom.MoveReport)) (bloom.MoveReport, error) {
	return bloom.MoveReport{}, nil
}

// inFolder is object storage in a folder.
type inFolder struct{ blob.Blobs }

func (inFolder) State() bloom.BlobState { return bloom.BlobState{Connected: true} }
func (inFolder) Placed(string) bool     { return true }
func (s inFolder) PutFile(ctx context.Context, key string, content io.Reader, size int64, sum string) (string, error) {
	return s.Put(ctx, key, content, size, sum)
}
func (inFolder) Link(context.Context, string, time.Duration, string, string) (string, error) {
	return "", nil
}

// TestTheAuditNamesTheWorkerWithoutAKey has a worker register, and complete a task, where no
// key tells who it is.
func TestTheAuditNamesTheWorkerWithoutAKey(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(_ *dispatch.Config, a *auth.Config, _ *httpapi.Config) { a.AdminKey, a.WorkerKey = "", "" })
	r.key = ""
	r.worker("w1", 1)
	at, lease := r.leasedTask()
	r.call(200, nil, "POST", at+"/complete", `{"lease_id":"`+lease+`","status":"success","output":"done","metrics":{"duration_ms":1}}`)
	var all []bloom.Audit
	r.call(200, &all, "GET", "/audit", "")
	actors := map[string]string{}
	for _, a := range all {
		actors[a.Action] = a.Actor
	}
	for action, want := range map[string]string{audit.ActionWorkerRegistered: "w1", audit.ActionTaskCreated: "local", audit.ActionTaskCompleted: "w1"} {
		if actors[action] != want {
			t.Errorf("%s by %q, want %q", action, actors[action], want)
		}
	}
}
