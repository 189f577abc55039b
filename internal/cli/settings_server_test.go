package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

func serverScenes() map[string]scene {
	return map[string]scene{
		"address": {roles: servers, sets: []set{
			{"--listen", "127.0.0.3:{port}", func(s *stage) {
				if s.url() != s.values.Replace("http://127.0.0.3:{port}") {
					s.Error(s.url())
				}
			}},
		}},
		"port": {roles: servers, sets: []set{
			{"--port", "{port}", func(s *stage) {
				if !strings.HasSuffix(s.url(), s.values.Replace(":{port}")) {
					s.Error(s.url())
				}
			}},
		}},
		"installer": {roles: servers, before: func(s *stage) { s.file("dist/bloom-linux-armv7", "a program") }, sets: []set{
			{"--dist-dir", "{dir}/dist", func(s *stage) {
				if _, text := s.call("GET", s.url()+"/download/bloom-linux-armv7", ""); text != "a program" {
					s.Error(text)
				}
			}},
		}},
		"loops": {roles: servers, up: noMembridge, sets: []set{
			{"--reap-interval", "1s", func(s *stage) {
				re := regexp.MustCompile(`bloom_loop_last_success_timestamp_seconds\{loop="reaper"\} (\S+)`)
				runs := map[string]bool{}
				if !within(90*time.Second, func() bool { // with the default there would be three runs in that time, or four
					_, text := s.call("GET", s.url()+"/metrics", "")
					if m := re.FindStringSubmatch(text); m != nil {
						runs[m[1]] = true
					}
					return len(runs) >= 6
				}) {
					s.Errorf("ran at %v", runs)
				}
			}},
			{"--membridge-sync-interval", "1s", func(s *stage) {
				if !within(90*time.Second, func() bool { return s.bridge.count(func(r recorded) bool { return r.path == "/agents" }) >= 12 }) {
					s.Error("membridge was asked too seldom")
				}
			}},
		}},
		"membridge's time": {roles: servers, up: noMembridge, before: func(s *stage) { s.bridge.stall() }, sets: []set{
			{"--membridge-timeout", "1300ms", func(s *stage) {
				_, text := s.call("POST", s.url()+"/api/runtime/test-connection", "")
				if !strings.Contains(text, "1.3s") {
					s.Error(text)
				}
			}}}},
		"shutdown": {roles: servers, sets: []set{{"--shutdown-grace", "1700ms", func(s *stage) {
			host := strings.TrimPrefix(s.url(), "http://")
			conn, err := net.Dial("tcp", host)
			if err != nil {
				s.Fatal(err)
			}
			defer conn.Close()
			_, _ = fmt.Fprintf(conn, "POST /api/runtime/llm-tasks HTTP/1.1\r\nHost: %s\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n", host)
			if _, err := conn.Read(make([]byte, 8)); err != nil { // the handler reads the body, which never arrives
				s.Fatal(err)
			}
			s.stop()
			s.says(`cutting off requests that did not finish in time.* grace=1\.7s`)
		}}}},
		"memory": {roles: servers, sets: []set{
			{"--page-mib", "1", func(s *stage) {
				for range 2 {
					s.wants(201, "POST", s.url()+"/api/runtime/llm-tasks", `{"context_id":"c","agent_slug":"a","run_at":9999999999999,"prompt":"`+strings.Repeat("p", 700<<10)+`"}`)
				}
				if _, text := s.call("GET", s.url()+"/api/runtime/llm-tasks?status=queued&limit=10", ""); strings.Count(text, "prompt_truncated") != 1 {
					s.Errorf("a page of %d bytes", len(text))
				}
			}},
			{"--body-budget-mib", "40", func(s *stage) {
				path := "/api/runtime/llm-tasks/" + s.heldTask() + "/complete"
				host := strings.TrimPrefix(s.url(), "http://")
				conn, err := net.Dial("tcp", host)
				if err != nil {
					s.Fatal(err)
				}
				defer conn.Close()
				_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path, host, 18<<20, `{"output":"`+strings.Repeat("o", 1<<20))
				stop := make(chan struct{})
				defer close(stop)
				go func() { // a sender that stops loses its connection
					for pace := time.NewTicker(100 * time.Millisecond); ; {
						select {
						case <-stop:
							return
						case <-pace.C:
							_, _ = io.WriteString(conn, strings.Repeat("o", 8<<10))
						}
					}
				}()
				s.await("the first body to take its part of the memory", func() bool {
					status, _ := s.call("POST", s.url()+path, `{"output":"`+strings.Repeat("o", 10<<20)+`"}`)
					return status == 503
				})
			}},
			{"--stream-timeout", "1s", func(s *stage) {
				task := s.heldTask()
				path := "/api/runtime/llm-tasks/" + task
				s.wants(200, "POST", s.url()+path+"/complete", `{"status":"success","output":"`+strings.Repeat("o", 24<<20)+`"}`)
				_, text := s.call("GET", s.url()+"/api/runtime/artifacts?task_id="+task, "")
				id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)[1]
				host := strings.TrimPrefix(s.url(), "http://")
				conn, err := net.Dial("tcp", host)
				if err != nil {
					s.Fatal(err)
				}
				defer conn.Close()
				_, _ = fmt.Fprintf(conn, "GET /api/runtime/artifacts/%s/content HTTP/1.1\r\nHost: %s\r\n\r\n", id, host)
				s.says("content 200 1...ms") // after about a second, not half a minute
			}},
		}},
		"proxy": {roles: servers, also: []string{"--runtime-api-key=" + serverKey}, sets: []set{{"--trusted-proxy", "127.0.0.0/8", func(s *stage) {
			s.wants(401, "GET", s.url()+"/api/runtime/stats", "", "X-Forwarded-For", "198.51.100.1, 203.0.113.77")
			s.says(`stats 401.* client=203\.0\.113\.77`)
		}}}},
		"rate limits": {roles: servers, also: []string{"--runtime-api-key=" + serverKey}, sets: []set{
			{"--rate-limit-sign-in", "3", func(s *stage) {
				for range 3 {
					s.wants(401, "POST", s.url()+"/api/runtime/session", `{"key":"not-a-key-0123456789"}`)
				}
				s.wants(429, "POST", s.url()+"/api/runtime/session", `{"key":"not-a-key-0123456789"}`)
			}},
			{"--rate-limit-address", "10", s429("GET", "/api/runtime/stats", 401, 6)}, // 4 are used
			{"--rate-limit-key", "5", s429("GET", "/api/runtime/stats", 200, 5, "X-Runtime-API-Key", serverKey)},
			{"--rate-limit-worker", "7", s429("POST", "/api/runtime/workers/nobody/claim", 404, 7, "X-Runtime-API-Key", serverKey)},
		}},
		"queue limits": {roles: servers, also: []string{"--runtime-api-key=" + serverKey}, up: []string{"--no-worker"}, sets: []set{
			{"--max-queued-per-key", "2", queueHas(2, "that this key created")},
		}},
		"queue limit": {roles: servers, also: []string{"--runtime-api-key=" + serverKey}, up: []string{"--no-worker"}, sets: []set{
			{"--max-queued", "3", queueHas(3, "the most that the runtime accepts")},
		}},
		"origin": {roles: servers, also: []string{"--runtime-api-key=" + serverKey}, sets: []set{{"--trusted-origin", "https://app.example", func(s *stage) {
			from := func(origin string) []string {
				return []string{"X-Runtime-API-Key", serverKey, "Origin", origin, "Sec-Fetch-Site", "cross-site"}
			}
			s.wants(400, "POST", s.url()+"/api/runtime/llm-tasks", "{}", from("https://app.example")...)
			s.wants(403, "POST", s.url()+"/api/runtime/llm-tasks", "{}", from("https://other.example")...)
		}}}},
		// Entries are exported before they are removed.
		"retention": {roles: servers, also: []string{"--audit-export=off"}, before: plantOldTasks, sets: []set{
			{"--retention-tasks", "30d", func(s *stage) {
				s.await("the oldest task to go", func() bool {
					status, _ := s.call("GET", s.url()+"/api/runtime/llm-tasks/"+oldest, "")
					return status == 404
				})
			}},
			{"--retention-events", "3d", func(s *stage) {
				s.await("the old task's events to go", func() bool {
					_, text := s.call("GET", s.url()+"/api/runtime/llm-tasks/"+old+"/events", "", "Accept", "application/x-ndjson")
					return !strings.Contains(text, `"type":"cancelled"`)
				})
				s.wants(200, "GET", s.url()+"/api/runtime/llm-tasks/"+old, "")
			}},
			{"--run-transcripts", "never", func(s *stage) { // otherwise the events would still be served
				if _, text := s.call("GET", s.url()+"/api/runtime/artifacts?task_id="+old, ""); strings.Contains(text, `"transcript"`) {
					s.Error(text)
				}
			}},
			{"--retention-audit", "2d", func(s *stage) {
				s.await("the old task's audit to go", func() bool {
					_, text := s.call("GET", s.url()+"/api/runtime/audit?entity_id="+old, "")
					return strings.TrimSpace(text) == "[]"
				})
			}},
			{"--retention-contexts", "5d", func(s *stage) {
				s.await("the old context to be forgotten", func() bool {
					status, _ := s.call("GET", s.url()+"/api/runtime/contexts/old", "")
					return status == 404
				})
			}},
		}},
	}
}

// s429 expects a refusal after n other requests in the same minute; one more may be allowed while
// they are counted.
func s429(method, path string, before, n int, header ...string) func(*stage) {
	return func(s *stage) {
		s.Helper()
		for range n {
			s.wants(before, method, s.url()+path, "{}", header...)
		}
		if !within(stageLimit, func() bool { status, _ := s.call(method, s.url()+path, "{}", header...); return status == 429 }) {
			s.Errorf("%s %s is never refused", method, path)
		}
	}
}

// queueHas checks that the queue has room for n tasks, and why more are refused.
func queueHas(n int, why string) func(*stage) {
	return func(s *stage) {
		s.Helper()
		create := func() (int, string) {
			return s.call("POST", s.url()+"/api/runtime/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "X-Runtime-API-Key", serverKey)
		}
		for range n {
			if status, text := create(); status != 201 {
				s.Errorf("%d %s", status, text)
			}
		}
		if status, text := create(); status != 429 || !strings.Contains(text, `"code":"queue_full"`) || !strings.Contains(text, why) {
			s.Errorf("%d %s", status, text)
		}
	}
}

const (
	oldest = "01900000-0000-7000-8000-000000000001"
	old    = "01900000-0000-7000-8000-000000000002"
)

type ago time.Duration

func (a ago) Now() time.Time { return time.Now().Add(-time.Duration(a)) }

// plantOldTasks creates a task that ended 40 days ago and one that ended 10 days ago.
func plantOldTasks(s *stage) {
	s.file("data/placeholder", "")
	for id, age := range map[string]ago{oldest: ago(40 * 24 * time.Hour), old: ago(10 * 24 * time.Hour)} {
		ctx := context.Background()
		store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(s.dir, "data", "bloom.db"), Clock: age})
		if err != nil {
			s.Fatal(err)
		}
		task := storetest.Plain("old")
		task.ID = id
		_, _, err = store.CreateTask(ctx, task)
		if err == nil {
			_, err = store.Cancel(ctx, id, "test")
		}
		if err = errors.Join(err, store.Close()); err != nil {
			s.Fatal(err)
		}
	}
}
