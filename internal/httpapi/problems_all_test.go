package httpapi_test

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// unreachableMembridge is a control plane that has not answered for a while.
type unreachableMembridge struct{}

func (unreachableMembridge) Health(context.Context) (json.RawMessage, error) { return nil, io.EOF }
func (unreachableMembridge) Check(context.Context) error                     { return io.EOF }
func (unreachableMembridge) Configure(string, string)                        {}
func (unreachableMembridge) State() dispatch.MembridgeState {
	return dispatch.MembridgeState{ConsecutiveFailures: 3}
}

// elsewhere is object storage to which nothing has been moved yet.
type elsewhere struct{}

func (elsewhere) State() bloom.BlobState {
	return bloom.BlobState{Kind: bloom.BlobsS3, Connected: true, Can: blob.Abilities}
}
func (elsewhere) Placed(string) bool { return false }
func (elsewhere) PutFile(context.Context, string, io.Reader, int64, string) (string, error) {
	return "", blob.ErrUnavailable
}
func (elsewhere) Link(context.Context, string, time.Duration, string, string) (string, error) {
	return "", nil
}

// ends leases a task and fails it.
func (r *fixture) ends(more, class string) bloom.Task {
	r.t.Helper()
	task := r.task(more)
	r.lease(task.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"error","error_message":"no","error_class":"`+class+`","metrics":{"duration_ms":1}}`)
	return task
}

// A scene is a situation in which a problem is found.
type scene struct {
	set     func(*dispatch.Config)
	provoke func(*fixture)
}

func machine(m problems.Machine) func(*dispatch.Config) {
	return func(dc *dispatch.Config) { dc.Machine = func() problems.Machine { return m } }
}

func blobs(kind string) func(*dispatch.Config) {
	return func(dc *dispatch.Config) {
		dc.BlobState = func() bloom.BlobState { return bloom.BlobState{Kind: kind} }
	}
}

// later lets more time pass than a task may wait without a reason.
func (r *fixture) later() { r.clock.by.Add(int64(2 * time.Minute)) }

var scenes = map[string]scene{
	problems.CodeStorage:     {provoke: func(r *fixture) { must(r.t, r.store.Close()) }},
	problems.CodeWrites:      {set: machine(problems.Machine{WritesFail: "The disk that holds the database is full"})},
	problems.CodeDisk:        {set: machine(problems.Machine{DiskLow: true, FreeBytes: 1 << 30})},
	problems.CodeCertificate: {set: machine(problems.Machine{CertExpires: time.Now().Add(time.Hour).UnixMilli(), Domain: "bloom.test"})},
	problems.CodeNoWorkers:   {provoke: func(r *fixture) { r.task("") }},
	problems.CodeAllOffline:  {provoke: func(r *fixture) { r.offline("w1") }},
	problems.CodeOffline: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.offline("w2")
	}},
	problems.CodeNoClaude: {provoke: func(r *fixture) {
		r.call(201, nil, "POST", "/workers", `{"name":"w1","status":"online","capabilities":{"claude_cli":false}}`)
	}},
	problems.CodeWorkerError: {provoke: func(r *fixture) {
		r.call(201, nil, "POST", "/workers", `{"name":"w1","status":"error"}`)
	}},
	problems.CodeDrained: {provoke: func(r *fixture) { r.drained("w1") }},
	problems.CodeVersions: {set: machine(problems.Machine{Version: "2.0"}), provoke: func(r *fixture) {
		r.call(201, nil, "POST", "/workers", `{"name":"w1","capabilities":{"claude_cli":true},"agent_version":"1.0"}`)
	}},
	problems.CodeLimited: {provoke: func(r *fixture) {
		r.call(201, nil, "POST", "/workers", `{"name":"w1","pause":{"until":`+itoa(timing.Millis(r.clock.Now().Add(time.Hour)))+`,"class":"rate_limited","reason":"slow down"}}`)
	}},
	problems.CodeRefused: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.ends("", bloom.ClassAuth)
	}},
	problems.CodePaused: {provoke: func(r *fixture) {
		r.call(201, nil, "POST", "/workers", `{"name":"w1","pause":{"until":`+itoa(timing.Millis(r.clock.Now().Add(time.Hour)))+`,"class":"auth","reason":"not logged in"}}`)
	}},
	problems.CodeFailed: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.ends("", bloom.ClassInvalidInput)
	}},
	problems.CodeDead: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.lease(r.task(`,"max_attempts":1`).ID)
		r.clock.by.Add(int64(time.Hour))
		_, err := r.store.Reap(context.Background(), 10)
		must(r.t, err)
	}},
	problems.CodeWaitLabels: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.task(`,"labels":["gpu"]`)
	}},
	problems.CodeWaitDrained: {provoke: func(r *fixture) {
		r.drained("w1")
		r.task("")
	}},
	problems.CodeWaitSlots: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.lease(r.task("").ID)
		r.task("")
		r.later()
	}},
	problems.CodeWaitOrder: {provoke: func(r *fixture) {
		r.worker("w1", 2)
		r.lease(r.task(`,"policy":{"ordered":true}`).ID)
		r.task(`,"policy":{"ordered":true}`)
		r.later()
	}},
	problems.CodeWait: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.task("")
		r.later()
	}},
	problems.CodeDelayed: {provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.task(`,"run_at":` + itoa(timing.Millis(r.clock.Now().Add(time.Hour))))
	}},
	problems.CodeQueueFull: {set: func(dc *dispatch.Config) { dc.MaxQueued = 1 }, provoke: func(r *fixture) {
		r.worker("w1", 1)
		r.task("")
	}},
	problems.CodeKeysExpire: {provoke: func(r *fixture) {
		r.call(201, nil, "POST", "/keys", `{"name":"ci","role":"client","expires_at":`+itoa(timing.Millis(r.clock.Now().Add(time.Hour)))+`}`)
	}},
	problems.CodeArtifacts: {set: blobs(bloom.BlobsS3)},
	problems.CodeArtifactsWait: {set: func(dc *dispatch.Config) { dc.Objects = elsewhere{} }, provoke: func(r *fixture) {
		r.worker("w1", 1)
		task := r.task("")
		r.lease(task.ID)
		r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"status":"success","output":"a result"}`)
	}},
	problems.CodeQuota:     {provoke: releasesWithoutEnd},
	problems.CodeMembridge: {set: func(dc *dispatch.Config) { dc.Membridge = unreachableMembridge{} }},
}

func (r *fixture) offline(name string) {
	r.call(201, nil, "POST", "/workers", `{"name":"`+name+`","status":"offline"}`)
}

func (r *fixture) drained(name string) {
	r.worker(name, 1)
	r.call(200, nil, "POST", "/workers/"+name+"/drain", `{"drain":true}`)
}

// Each problem is found in its own scene, alone, and disappears with the cause.
func TestEachProblemIsFound(t *testing.T) {
	t.Parallel()
	declared := problemCodes(t)
	if known := slices.Sorted(maps.Keys(scenes)); !slices.Equal(known, declared) {
		t.Fatalf("there are scenes for %v, and codes %v", known, declared)
	}
	// Side effects that a scene cannot avoid.
	with := map[string][]string{problems.CodeWaitDrained: {problems.CodeDrained}}
	for code, s := range scenes {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, func(dc *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
				if s.set != nil {
					s.set(dc)
				}
			})
			if s.provoke != nil {
				if found := r.problems(); len(found) != 0 && s.set == nil {
					t.Fatalf("before anything is wrong: %v", codes(found))
				}
				s.provoke(r)
			}
			want := append([]string{code}, with[code]...)
			slices.Sort(want)
			if found := r.problems(); !slices.Equal(codes(found), want) {
				t.Errorf("found %+v, want %v", found, want)
			}
		})
	}
}

// problemCodes returns the values of the constants Code….
func problemCodes(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../problems/codes.go", nil, 0)
	must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			must(t, err)
			all = append(all, value)
		}
		return true
	})
	slices.Sort(all)
	return all
}

func TestFailedTasksAreGroupedByCause(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 9)
	r.ends("", bloom.ClassInvalidInput)
	r.ends("", bloom.ClassAuth) // a separate problem
	r.ends("", bloom.ClassBudgetExceeded)
	newest := r.ends("", bloom.ClassInvalidInput)
	p := r.problems()["tasks_failed"]
	if p.Count != 3 || len(p.Causes) != 2 || p.Causes[0] != (bloom.Cause{ErrorClass: bloom.ClassInvalidInput, Count: 2, TaskID: newest.ID}) || p.Causes[1].Count != 1 {
		t.Errorf("reported as %+v", p)
	}
	if want := "3 tasks failed in the last 24 hours: invalid_input 2, budget_exceeded 1"; p.Sentence != want {
		t.Errorf("%q, want %q", p.Sentence, want)
	}
}
