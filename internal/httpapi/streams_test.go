package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
)

// sse reads server-sent events one by one.
type sse struct {
	t    *testing.T
	res  *http.Response
	in   *bufio.Scanner
	stop context.CancelFunc
}

type frame struct{ id, event, data string }

func (r *fixture) stream(t *testing.T, path string, headers ...string) *sse {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	res, err := r.client.Do(r.request("GET", "/api/runtime"+path, "", headers...).WithContext(ctx))
	must(t, err)
	s := &sse{t: t, res: res, in: bufio.NewScanner(res.Body), stop: cancel}
	t.Cleanup(s.close)
	return s
}

func (s *sse) close() {
	s.stop()
	s.res.Body.Close()
}

// next returns the next frame; ok is false at the end of the stream.
func (s *sse) next() (f frame, ok bool) {
	s.t.Helper()
	for s.in.Scan() {
		name, value, _ := strings.Cut(s.in.Text(), ": ")
		switch name {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data = value
		case "":
			if f.data != "" {
				return f, true
			}
		}
	}
	return f, false
}

func (s *sse) types(n int) (types []string) {
	s.t.Helper()
	for range n {
		f, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended after %v", types)
		}
		var e bloom.Event
		must(s.t, json.Unmarshal([]byte(f.data), &e))
		if f.id != fmt.Sprint(e.Seq) {
			s.t.Fatalf("id %s of event %d", f.id, e.Seq)
		}
		types = append(types, e.Type)
	}
	return types
}

func TestATasksStreamIsFollowedLiveAndResumed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	path := "/llm-tasks/" + task.ID + "/events"
	live := r.stream(t, path)
	if ct := live.res.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Fatalf("a stream as %q", ct)
	}
	if diff := cmp.Diff([]string{"created"}, live.types(1)); diff != "" {
		t.Fatal(diff)
	}
	l := r.lease(task.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/heartbeat", `{"lease_id":"`+l.Lease.ID+`"}`)
	lines := "{\"seq\":1,\"type\":\"text\",\"at\":1,\"data\":{\"text\":\"a\\r\\nb\"} \r}\n{\"seq\":2,\"type\":\"text\",\"at\":2,\"data\":{}}"
	r.call(200, nil, "POST", path+"?lease_id="+l.Lease.ID, lines, "Content-Type", "application/x-ndjson")
	r.call(200, nil, "POST", path+"?lease_id="+l.Lease.ID, lines, "Content-Type", "application/x-ndjson") // a repetition
	if diff := cmp.Diff([]string{"leased", "started", "text", "text"}, live.types(4)); diff != "" {
		t.Fatal(diff)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/complete", `{"lease_id":"`+l.Lease.ID+`","status":"success","output":"x"}`)
	if diff := cmp.Diff([]string{"completed"}, live.types(1)); diff != "" {
		t.Fatal(diff)
	}
	if f, ok := live.next(); ok {
		t.Fatalf("after the terminal event comes %+v", f)
	}
	resumed := r.stream(t, path, "Last-Event-ID", "3")
	if diff := cmp.Diff([]string{"text", "text", "completed"}, resumed.types(3)); diff != "" {
		t.Fatal(diff)
	}
	if a := r.do("GET", "/api/runtime"+path, "", "Last-Event-ID", "6"); a.status != http.StatusNoContent {
		t.Fatalf("a reconnect after the end answers %d", a.status)
	}
	if got := r.events(task.ID, "4"); len(got) != 2 || got[1].Type != "completed" {
		t.Fatalf("as lines: %+v", got)
	}
	r.fails(404, "not_found", "GET", "/llm-tasks/00000000-0000-7000-8000-000000000000/events", "")
	r.fails(400, "invalid_request", "GET", path, "", "Last-Event-ID", "x")
}

func TestAStreamThatIsNotFollowedEndsWithTheEventsThatExist(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := r.task("")
	path := "/llm-tasks/" + task.ID + "/events?follow=false"
	s := r.stream(t, path)
	if diff := cmp.Diff([]string{"created"}, s.types(1)); diff != "" {
		t.Fatal(diff)
	}
	if f, ok := s.next(); ok {
		t.Fatalf("after the last event comes %+v", f)
	}
	if f, ok := r.stream(t, path+"&after=1").next(); ok {
		t.Fatalf("after the last event comes %+v", f)
	}
}

func TestARequeuedTasksStreamGoesOn(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := r.task("")
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/cancel", "")
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/requeue", "")
	s := r.stream(t, "/llm-tasks/"+task.ID+"/events")
	if diff := cmp.Diff([]string{"created", "cancelled", "requeued"}, s.types(3)); diff != "" {
		t.Fatal(diff)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/cancel", "")
	if diff := cmp.Diff([]string{"cancelled"}, s.types(1)); diff != "" {
		t.Fatal(diff)
	}
	if _, ok := s.next(); ok {
		t.Fatal("the stream did not end")
	}
}

func TestChangesAreSentAsTheyHappen(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	s := r.stream(t, "/events")
	task := r.task("")
	for {
		f, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		var c bloom.Change
		must(t, json.Unmarshal([]byte(f.data), &c))
		if f.event == bloom.ChangeTask && c.TaskID == task.ID && c.TaskStatus == bloom.TaskQueued {
			return
		}
	}
}

func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := r.task("")
	one, all := r.stream(t, "/llm-tasks/"+task.ID+"/events"), r.stream(t, "/events")
	one.types(1)
	r.service.Close()
	for _, s := range []*sse{one, all} {
		for ok := true; ok; {
			_, ok = s.next()
		}
	}
}

func TestEventsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	l := r.lease(task.ID)
	path := "/llm-tasks/" + task.ID + "/events?lease_id=" + l.Lease.ID
	for _, body := range []string{`{"seq":1}`, `{"type":"text"}`, `[]`, `x`, `{"seq":-1,"type":"text"}`, `{"seq":1,"type":"text","data":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`} {
		r.fails(400, "invalid_request", "POST", path, body)
	}
	r.fails(409, "lease_lost", "POST", "/llm-tasks/"+task.ID+"/events?lease_id=x", `{"seq":1,"type":"text"}`)
}
