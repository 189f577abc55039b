package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

func TestAListOfLongPromptsTakesLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	prompt := strings.Repeat("p", 4<<20-200)
	const tasks = 48 // of 4 MB: a response of 192 MB, and as much again if it were assembled in memory
	for range tasks {
		p.call(201, nil, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"`+prompt+`"}`)
	}
	var list []bloom.Task
	a := p.call(200, &list, "GET", "/llm-tasks?limit=1000", "")
	if len(list) != tasks || len(a.body) > 8<<20 {
		t.Errorf("%d tasks in %d bytes", len(list), len(a.body))
	}
	for _, task := range list {
		if !task.PromptTruncated || task.Prompt == "" {
			t.Fatalf("a prompt of %d bytes is not marked as cut", len(task.Prompt))
		}
	}
	p.staysSmall("listing")
	var whole bloom.Task
	p.call(200, &whole, "GET", "/llm-tasks/"+list[0].ID, "")
	if whole.Prompt != prompt || whole.PromptTruncated {
		t.Errorf("the task itself has %d bytes of the prompt", len(whole.Prompt))
	}
}

func TestStalledReadersOfAStreamTakeLittleMemoryAndAreDropped(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	p.worker("w", 1)
	task, lease := p.held()
	text := strings.Repeat("e", 1<<20-4096)
	for i := 0; i < 40; i += 10 { // 4 GB for 100 readers
		var body bytes.Buffer
		for n := i; n < i+10; n++ {
			fmt.Fprintf(&body, `{"seq":%d,"type":"text","at":1,"data":{"text":"%s"}}`+"\n", n+1, text)
		}
		p.call(200, nil, "POST", "/llm-tasks/"+task+"/events?lease_id="+lease, body.String())
	}
	for i := range 100 {
		conn := p.stalled("/llm-tasks/" + task + "/events")
		if i < 12 {
			_, err := io.ReadFull(conn, make([]byte, 16<<10)) // the stream has started
			must(t, err)
		}
	}
	p.staysSmall("stalled readers")
}

func TestLargeCompletionsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	const many, few = 16, 4
	p.worker("w", 32)
	output := strings.Repeat("o", 28<<20)
	var absent, present [many]string
	for i := range many {
		absent[i] = `/llm-tasks/00000000-0000-7000-8000-000000000000/complete|{"status":"success","lease_id":"00000000-0000-7000-8000-000000000001","output":"`
		task, lease := p.held()
		present[i] = "/llm-tasks/" + task + `/complete|{"status":"success","lease_id":"` + lease + `","output":"`
	}
	post := func(target string) (int, string) {
		path, head, _ := strings.Cut(target, "|")
		body := io.MultiReader(strings.NewReader(head), strings.NewReader(output), strings.NewReader(`"}`))
		req, err := http.NewRequestWithContext(t.Context(), "POST", p.url+"/api/runtime"+path, body)
		must(t, err)
		req.ContentLength = int64(len(head) + len(output) + 2)
		req.Header.Set(auth.HeaderKey, adminKey)
		res, err := p.client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body)
		if res.StatusCode == 503 && res.Header.Get("Retry-After") == "" {
			t.Errorf("503 without Retry-After")
		}
		return res.StatusCode, string(raw)
	}
	all := func(targets []string, want int) {
		var wg sync.WaitGroup
		for _, target := range targets {
			wg.Go(func() {
				for {
					status, answer := post(target)
					if status == want {
						return
					}
					if status != 503 && status != 0 { // busy, or cut while it was still sending
						t.Errorf("%d %.200s", status, answer)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	all(absent[:], 404)
	p.staysSmall("completions of no task")
	all(present[:few], 200)
	p.staysSmall("completions of held tasks")
	a := p.do("GET", "/api/runtime/artifacts?limit=1000", "")
	var list []bloom.Artifact
	must(t, json.Unmarshal(a.body, &list))
	if len(list) != few || list[0].Size != int64(len(output)) {
		t.Errorf("%d artifacts", len(list))
	}
}

// While one body uses all the memory for bodies, the next large one is refused.
func TestLargeBodiesWaitForMemory(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w", 1)
	task := r.task("")
	lease := r.lease(task.ID)
	send, body := net.Pipe()
	defer body.Close()
	head := `{"lease_id":"` + lease.Lease.ID + `","status":"success","metrics":{"duration_ms":1},"output":"`
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/api/runtime/llm-tasks/"+task.ID+"/complete", send)
	must(t, err)
	req.ContentLength = 32 << 20
	req.Header.Set(auth.HeaderKey, adminKey)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := r.client.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	_, err = io.WriteString(body, head+strings.Repeat("o", 128<<10))
	must(t, err)
	large := `{"context_id":"c","agent_slug":"a","prompt":"` + strings.Repeat("p", 1<<20) + `"}`
	for deadline := time.Now().Add(3 * time.Minute); ; {
		a := r.do("POST", "/api/runtime/llm-tasks", large)
		if a.status == http.StatusServiceUnavailable && strings.Contains(string(a.body), `"busy"`) && a.header.Get("Retry-After") != "" {
			break
		}
		if a.status != http.StatusCreated || time.Now().After(deadline) { // created: the other one was not yet admitted
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	must(t, body.Close())
	<-ended
	r.call(201, nil, "POST", "/llm-tasks", large)
}

// Bodies of a size that needs no admission as large ones are sent in half, with a client's key and
// with a worker's: others are served, and the senders are disconnected.
func TestHalfSentBodiesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	p.worker("w", 1)
	task, lease := p.held()
	var client, worker bloom.CreatedKey
	p.call(201, &client, "POST", "/keys", `{"name":"c","role":"client"}`)
	p.call(201, &worker, "POST", "/keys", `{"name":"w","role":"worker","worker_id":"w"}`)
	create := `{"context_id":"c","agent_slug":"a","prompt":"` + strings.Repeat("p", 60_000)
	line := `{"seq":1,"type":"text","at":1,"data":{"text":"` + strings.Repeat("e", 1<<20-4096)
	var conns []net.Conn
	for i := range 3000 {
		conns = append(conns, p.half(client.Key, "/llm-tasks", 64<<10, create))
		if i%10 == 0 {
			conns = append(conns, p.half(worker.Key, "/llm-tasks/"+task+"/events?lease_id="+lease, 1<<20, line))
		}
	}
	p.call(201, nil, "POST", "/llm-tasks", create+`"}`)
	p.call(200, nil, "POST", "/llm-tasks/"+task+"/events?lease_id="+lease, line+`"}}`)
	for _, conn := range conns {
		if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 && !bytes.Contains(answer, []byte(`"code":`)) {
			t.Fatalf("a sender of half a body: %.200s, %v", answer, err)
		}
		_ = conn.Close()
	}
	p.staysSmall("half-sent bodies")
}

// Two bytes of a body may become a hundred in memory.
func TestBodiesOfManyValuesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	p.worker("w", 1)
	task, lease := p.held()
	many := func(n int) string { return "[{}" + strings.Repeat(",{}", n) + "]" }
	var all sync.WaitGroup
	for path, body := range map[string]string{
		"/llm-tasks/" + task + "/complete": `{"status":"success","lease_id":"` + lease + `","metrics":{"warnings":` + many(10<<20) + `}}`,
		"/workers/w/logs":                  `{"lines":` + many(300_000) + `}`,
		"/llm-tasks":                       `{"context_id":"c","agent_slug":"a","prompt":"p","context_hints":[""` + strings.Repeat(`,""`, 1_000_000) + `]}`,
	} {
		for range 6 {
			all.Go(func() {
				for {
					a := p.do("POST", "/api/runtime"+path, body)
					if a.status == 503 && a.header.Get("Retry-After") != "" {
						continue
					}
					if a.status != 400 || !strings.Contains(string(a.body), "20000 values") {
						t.Errorf("%s: %d %.200s", path, a.status, a.body)
					}
					return
				}
			})
		}
	}
	all.Wait()
	p.staysSmall("bodies of many values")
}

// half sends less of a body than it announces.
func (p *process) half(key, path string, size int, text string) net.Conn {
	p.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	must(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	must(p.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST /api/runtime%s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, auth.HeaderKey, key, size, text)
	must(p.t, err)
	return conn
}

func TestAStalledReaderIsDisconnected(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withStreamTimeout(200*time.Millisecond))
	r.worker("w", 1)
	task := r.task("")
	lease := r.lease(task.ID).Lease
	text := strings.Repeat("e", 1<<20-4096)
	for n := range 16 {
		r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/events?lease_id="+lease.ID, fmt.Sprintf(`{"seq":%d,"type":"text","at":1,"data":{"text":"%s"}}`, n+1, text))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(r.url, "http://"))
	must(t, err)
	defer conn.Close()
	must(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = fmt.Fprintf(conn, "GET /api/runtime/llm-tasks/%s/events HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", task.ID, auth.HeaderKey, adminKey)
	must(t, err)
	for !strings.Contains(r.log.String(), "GET /api/runtime/llm-tasks/"+task.ID+"/events 200") { // the request has ended
		select {
		case <-ctx.Done():
			t.Fatal("the reader is still waited for")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func withStreamTimeout(d time.Duration) fixtureOption {
	return func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.StreamTimeout = d }
}

func TestManySearchesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	const tasks, searches = 64, 32
	prompt := strings.Repeat("a b c d e ", 25_000)
	for range tasks {
		p.call(201, nil, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"`+prompt+`"}`)
	}
	var list []bloom.Task
	for deadline := time.Now().Add(3 * time.Minute); len(list) < tasks; { // the index is updated asynchronously
		if p.call(200, &list, "GET", "/llm-tasks?q=a&limit=1000", ""); time.Now().After(deadline) {
			t.Fatalf("%d tasks are found", len(list))
		}
	}
	if s := list[0].Snippet; s == nil || !s.Parts[0].Match || !list[0].PromptTruncated || len(list[0].Prompt) > 4<<10 {
		t.Errorf("found as %.300v with %d bytes of the prompt", s, len(list[0].Prompt))
	}
	p.staysSmall("one search")
	queries := []string{"a", "absent", "e a", `"a b c d e a b c"`}
	var all sync.WaitGroup
	for i := range searches {
		all.Go(func() {
			path := "/api/runtime/llm-tasks?limit=60&q=" + url.QueryEscape(queries[i%len(queries)])
			if i%2 == 0 {
				path += "&preview=1048576"
			}
			for { // searches wait for their turn, but not for ever
				a := p.do("GET", path, "")
				if a.status == 200 {
					return
				}
				if a.status != 503 || a.header.Get("Retry-After") == "" {
					t.Errorf("%d %.200s", a.status, a.body)
					return
				}
			}
		})
	}
	all.Wait()
	p.staysSmall("many searches")
}

// A result of 30 MB is read by many at once, and this and a task of 4 MB by readers that stop reading.
func TestManyReadersOfLargeAnswersTakeLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	p.worker("w", 32)
	output := strings.Repeat("o", 30<<20)
	task, lease := p.held()
	p.call(200, nil, "POST", "/llm-tasks/"+task+"/complete", `{"status":"success","lease_id":"`+lease+`","output":"`+output+`"}`)
	prompt := strings.Repeat("p", 4<<20-200)
	var large bloom.Task
	p.call(201, &large, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"`+prompt+`"}`)
	p.staysSmall("one large completion")
	for i := range 40 {
		for _, path := range []string{"/llm-tasks/" + large.ID, "/llm-tasks/" + task + "/results"} {
			if conn := p.stalled(path); i < 2 {
				_, err := io.ReadFull(conn, make([]byte, 16<<10)) // the response has begun
				must(t, err)
			}
		}
	}
	for range 400 { // of 0.5 MB each
		p.stalled("/stats/series?step=60")
	}
	var viewer bloom.CreatedKey
	p.call(201, &viewer, "POST", "/keys", `{"name":"v","role":"viewer"}`)
	p.key = viewer.Key // slow readers with one key delay nobody with another
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			var results []bloom.Result
			if a := p.do("GET", "/api/runtime/llm-tasks/"+task+"/results", ""); a.status != 200 || json.Unmarshal(a.body, &results) != nil || *results[0].Output != output || results[0].OutputTruncated {
				t.Errorf("%d, %d bytes", a.status, len(a.body))
			}
		})
	}
	all.Wait()
	p.staysSmall("many large answers")
}

// The downloads of one key, which read nothing, leave most of the open files to others.
func TestOneKeyLeavesOpenFilesForOthers(t *testing.T) {
	t.Parallel()
	const files, most, downloads = 400, 400 / 8, 120
	p := startWithFiles(t, files)
	p.worker("w", 1)
	task, lease := p.held()
	p.call(200, nil, "POST", "/llm-tasks/"+task+"/complete", `{"status":"success","lease_id":"`+lease+`","output":"`+strings.Repeat("o", 4<<20)+`"}`)
	var list []bloom.Artifact
	p.call(200, &list, "GET", "/artifacts", "")
	for i := range downloads {
		conn := p.stalled("/artifacts/" + list[0].ID + "/content")
		status := make([]byte, len("HTTP/1.1 200"))
		_, err := io.ReadFull(conn, status)
		must(t, err)
		if want := map[bool]string{true: "HTTP/1.1 200", false: "HTTP/1.1 429"}[i < most]; string(status) != want {
			t.Fatalf("download %d: %s, want %s", i+1, status, want)
		}
	}
	var viewer bloom.CreatedKey
	p.call(201, &viewer, "POST", "/keys", `{"name":"v","role":"viewer"}`)
	p.key = viewer.Key
	if a := p.do("GET", "/api/runtime/artifacts/"+list[0].ID+"/content", ""); a.status != 200 || len(a.body) != 4<<20 {
		t.Errorf("another key: %d, %d bytes", a.status, len(a.body))
	}
}

// stalled sends a request and reads only the beginning of the response, if there is any.
func (p *process) stalled(path string) net.Conn {
	p.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	must(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	must(p.t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	must(p.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "GET /api/runtime%s HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", path, auth.HeaderKey, adminKey)
	must(p.t, err)
	return conn
}

func TestManyUploadsWithTasksTakeLittleMemory(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	const uploads = 50
	content := strings.Repeat("a", 6<<20)
	body, kind := form(plainTask, "a.bin", content)
	half := len(body) / 2
	var arrived, ended sync.WaitGroup
	arrived.Add(uploads)
	for range uploads { // each sends the rest once all have sent a half
		ended.Go(func() {
			rest := func() io.Reader { arrived.Done(); arrived.Wait(); return strings.NewReader(body[half:]) }
			req, err := http.NewRequestWithContext(t.Context(), "POST", p.url+"/api/runtime/llm-tasks", io.MultiReader(strings.NewReader(body[:half]), &lazy{open: rest}))
			if err != nil {
				t.Error(err)
				return
			}
			req.ContentLength = int64(len(body))
			req.Header.Set("Content-Type", kind)
			req.Header.Set(auth.HeaderKey, adminKey)
			res, err := p.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusCreated {
				t.Errorf("answered %s", res.Status)
			}
		})
	}
	ended.Wait()
	p.staysSmall("uploads")
}

// lazy is opened by its first Read.
type lazy struct {
	open func() io.Reader
	r    io.Reader
}

func (l *lazy) Read(b []byte) (int, error) {
	if l.r == nil {
		l.r = l.open()
	}
	return l.r.Read(b)
}
