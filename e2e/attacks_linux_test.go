package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// attackMemory is the limit of the shipped deployment.
const attackMemory = 512 << 20

// attackTime is how long each attack lasts at least, while the fleet is measured.
const attackTime = 5 * time.Second

// slowestFleet is the p99 of a task of the fleet during an attack, on a busy machine.
const slowestFleet = 15 * time.Second

// siege is a server under attack.
type siege struct {
	*harness
	t       *testing.T
	address string
	viewer  string    // keys
	writer  string    // of a client
	evil    string    // bound to the worker evil
	unread  string    // valid, and not used before
	script  string    // a path of the web application
	result  string    // a task with a result of 30 MB
	large   string    // a task of 4 MB
	victims [2]string // tasks for the worker evil
	api     *client.Client
}

// TestAttacksStopNobody attacks a server whose memory is limited as in the shipped deployment, while a
// fleet works: the server survives, in its memory, and the fleet's tasks are completed.
func TestAttacksStopNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var err error
	if h.program, err = unraced(); err != nil {
		t.Fatal(err)
	}
	server := h.serveWith([]string{"GOMEMLIMIT=448MiB"}, "--no-membridge", "--max-connections", "300", "--trusted-proxy", "127.0.0.1/32")
	pid := server.cmd.Process.Pid
	t.Log(confine(t, pid, attackMemory))
	s := &siege{harness: h, t: t, address: strings.TrimPrefix(h.url, "http://"), api: h.api}
	s.prepare()
	f := &fleet{t: t, api: h.api}
	ctx, stop := context.WithCancel(t.Context())
	wait := f.run(ctx)
	defer func() { stop(); wait() }()
	for _, attack := range []struct {
		name string
		run  func(context.Context)
	}{
		{"none", func(ctx context.Context) { <-ctx.Done() }},
		{"files without a key, read slowly or not at all", s.files},
		{"programs read slowly on all connections", s.downloads},
		{"large answers", s.answers},
		{"searches", s.searches},
		{"half-sent bodies", s.halves},
		{"a worker's key", s.worker},
		{"unknown keys from 9,000 networks", s.networks},
	} {
		f.since()
		during, end := context.WithTimeout(ctx, attackTime)
		attack.run(during)
		<-during.Done()
		end()
		took, peak := f.since(), int64(peakMemory(t, pid))<<10
		if server.ended() || len(took) == 0 {
			t.Fatalf("%s: the fleet completed %d tasks, and the server is %s", attack.name, len(took), map[bool]string{true: "gone", false: "there"}[server.ended()])
		}
		p50, p99 := took[len(took)/2], took[len(took)*99/100]
		t.Logf("%-48s fleet: %4d tasks, p50 %6.1f ms, p99 %7.1f ms; server: at most %d MiB", attack.name, len(took), ms(p50), ms(p99), peak>>20)
		if p99 > slowestFleet {
			t.Errorf("%s: the fleet's p99 was %s", attack.name, p99)
		}
		if peak > attackMemory {
			t.Errorf("%s: the server took %d MiB", attack.name, peak>>20)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// prepare creates what is attacked.
func (s *siege) prepare() {
	s.t.Helper()
	ctx, done := context.WithTimeout(s.t.Context(), patience)
	defer done()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for _, k := range []struct {
		to   *string
		spec bloom.KeySpec
	}{{&s.viewer, bloom.KeySpec{Name: "viewer", Role: bloom.RoleViewer}}, {&s.writer, bloom.KeySpec{Name: "writer", Role: bloom.RoleClient}}, {&s.unread, bloom.KeySpec{Name: "unread", Role: bloom.RoleViewer}},
		{&s.evil, bloom.KeySpec{Name: "evil", Role: bloom.RoleWorker, WorkerID: "evil"}}} {
		made, err := s.api.CreateKey(ctx, k.spec)
		must(err)
		*k.to = made.Key
	}
	_, page := fetch(s.t, "GET", s.url+"/", "", "Accept", "text/html")
	if s.script = regexp.MustCompile(`/assets/[^"]+\.js`).FindString(page); s.script == "" {
		s.t.Log("the binary has no web application (make web): its page is requested instead")
		s.script = "/"
	}
	_, err := s.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: "evil", InstanceID: "evil", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 8, Labels: []string{"evil"}}})
	must(err)
	submit := func(prompt string) string {
		task, err := s.api.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: prompt, Labels: []string{"evil"}})
		must(err)
		return task.ID
	}
	s.victims = [2]string{submit("p"), submit("p")}
	s.result, s.large = submit("p"), submit(strings.Repeat("p", 4<<20-1024))
	leased, err := s.api.Lease(ctx, s.result, client.LeaseOptions{WorkerID: "evil"})
	must(err)
	output := strings.Repeat("o", 30<<20)
	_, err = s.api.Complete(ctx, s.result, bloom.Completion{LeaseID: leased.Lease.ID, Status: bloom.OutcomeSuccess, Output: &output})
	must(err)
	const indexed = 40
	for range indexed {
		submit(strings.Repeat("a ", 100_000))
	}
	eventually(s.t, "the tasks can be searched", func() bool {
		found, _, err := s.api.Tasks(ctx, bloom.TaskQuery{Text: "a ", Page: bloom.Page{Limit: 100}})
		return err == nil && len(found) == indexed
	})
}

// files requests a file 2,000 times on connections that read nothing, and as often as possible on
// others.
func (s *siege) files(ctx context.Context) {
	request := "GET " + s.script + " HTTP/1.1\r\nHost: h\r\n\r\n"
	s.hang(ctx, 200, strings.Repeat(request, 10))
	s.flood(ctx, 4, func(int) string { return request })
}

// downloads reads programs slowly on more connections than there may be.
func (s *siege) downloads(ctx context.Context) {
	s.hang(ctx, 400, "GET /download/bloom-linux-amd64 HTTP/1.1\r\nHost: h\r\n\r\n")
}

// answers reads a large result twelve times, and large answers without end.
func (s *siege) answers(ctx context.Context) {
	for _, path := range []string{"/llm-tasks/" + s.large, "/llm-tasks/" + s.result + "/results"} {
		s.hang(ctx, 50, "GET /api/runtime"+path+" HTTP/1.1\r\nHost: h\r\nX-Runtime-API-Key: "+s.viewer+"\r\n\r\n")
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() { s.get(ctx, "/llm-tasks/"+s.result+"/results") })
	}
	all.Wait()
}

// halves sends half a body on each of 240 connections, as a client and as a worker.
func (s *siege) halves(ctx context.Context) {
	leased, err := s.api.Lease(ctx, s.large, client.LeaseOptions{WorkerID: "evil"})
	if err != nil {
		s.t.Errorf("leasing: %v", err)
		return
	}
	post := func(key, path string, size int) string {
		return fmt.Sprintf("POST /api/runtime/llm-tasks%s HTTP/1.1\r\nHost: h\r\nX-Runtime-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, key, size, strings.Repeat(" ", size-1))
	}
	s.hang(ctx, 120, post(s.writer, "", 64<<10))
	s.hang(ctx, 120, post(s.evil, "/"+s.large+"/events?lease_id="+leased.Lease.ID, 1<<20))
}

// searches runs 24 expensive searches at a time, half of them without waiting for the answer.
func (s *siege) searches(ctx context.Context) {
	q := url.QueryEscape(strings.Join([]string{`"a a"`, `"a a a"`, `"a a a a"`, `"a a a a a"`}, " ") + strings.Repeat(` "a a"`, 30))
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for ctx.Err() == nil {
				one, leave := ctx, context.CancelFunc(func() {})
				if i%2 == 0 {
					one, leave = context.WithTimeout(ctx, 300*time.Millisecond)
				}
				s.get(one, "/llm-tasks?limit=100&q="+q)
				leave()
			}
		})
	}
	all.Wait()
}

// get reads an answer as a viewer.
func (s *siege) get(ctx context.Context, path string) {
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/api/runtime"+path, http.NoBody)
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("X-Runtime-API-Key", s.viewer)
	if res, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// worker floods events, parts and releases with a key that is bound to a worker.
func (s *siege) worker(ctx context.Context) {
	evil, err := client.New(s.url, client.Options{APIKey: s.evil, Retry: client.Retry{Tries: 1}})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer evil.Close()
	refused := func(err error) bool { return bloom.KindOf(err) == bloom.KindRateLimited }
	lease := func(task string) string {
		leased, err := s.api.Lease(ctx, task, client.LeaseOptions{WorkerID: "evil"})
		if err != nil && ctx.Err() == nil {
			s.t.Errorf("leasing: %v", err)
		}
		return leased.Lease.ID
	}
	var all sync.WaitGroup
	all.Go(func() {
		held := lease(s.victims[0])
		for range 4 {
			part := make([]byte, 4<<20)
			_, _ = rand.Read(part) // never fails
			_, _ = evil.PutTranscriptPart(ctx, s.victims[0], held, part)
		}
		text := storable.MustJSON(map[string]string{"text": strings.Repeat("e", 1<<20-4096)})
		for seq := int64(1); ctx.Err() == nil; seq++ {
			if err := evil.AppendEvents(ctx, s.victims[0], held, []bloom.WorkerEvent{{Seq: seq, Type: "text", At: 1, Data: text}}); refused(err) {
				s.t.Logf("events were refused after %d MiB", seq)
				return
			}
		}
	})
	all.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			_, err := evil.Release(ctx, s.victims[1], bloom.ReleaseSpec{LeaseID: lease(s.victims[1]), Reason: "r"})
			if refused(err) {
				s.t.Logf("releases were refused after %d", n)
				return
			}
		}
	})
	all.Wait()
}

// networks uses unknown keys from more networks than a limit tracks. A valid key that the server has
// not read yet is accepted all the same.
func (s *siege) networks(ctx context.Context) {
	const networks = 9000
	var n atomic.Int64
	soon, enough := context.WithCancel(ctx)
	defer enough()
	s.flood(soon, 8, func(int) string {
		i := n.Add(1)
		if i > networks {
			enough()
		}
		return fmt.Sprintf("GET /api/runtime/stats HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 2001:db8:%x:%x::1\r\nX-Runtime-API-Key: blm_%s_x\r\n\r\n", i>>12, i&0xfff, keyID(i))
	})
	if status, body := fetch(s.t, "GET", s.url+"/api/runtime/stats", "", "X-Runtime-API-Key", s.unread, "X-Forwarded-For", "2001:db8:ffff::1"); status != 200 {
		s.t.Errorf("a valid key: %d %s", status, body)
	}
}

// keyID returns an id of a key that does not exist.
func keyID(i int64) string {
	id := []byte("aaaaaaaaaaaaaaaa")
	for at := range 8 {
		id[at], i = byte('a'+i%26), i/26
	}
	return string(id)
}

// hang sends text on n connections, reads nothing, and closes them when ctx ends.
func (s *siege) hang(ctx context.Context, n int, text string) {
	for range n {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.address)
		if err != nil {
			continue // refused, or reset
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(16 << 10) //nolint:forcetypeassert // as dialled
		context.AfterFunc(ctx, func() { conn.Close() })
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, text)
	}
}

// flood sends requests on n connections and reads the answers, until ctx ends.
func (s *siege) flood(ctx context.Context, n int, request func(i int) string) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.address)
				if err != nil {
					continue
				}
				end := context.AfterFunc(ctx, func() { conn.Close() })
				in := bufio.NewReader(conn)
				for ctx.Err() == nil {
					var batch bytes.Buffer
					for range 16 {
						batch.WriteString(request(i))
					}
					if _, err := conn.Write(batch.Bytes()); err != nil {
						break
					}
					answered := 0
					for answered < 16 && skipAnswer(in) {
						answered++
					}
					if answered < 16 {
						break
					}
				}
				end()
				conn.Close()
			}
		})
	}
	all.Wait()
}
