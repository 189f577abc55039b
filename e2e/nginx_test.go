package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/porttest"
)

// TestReplicasBehindNginx runs the configuration in deploy/nginx with only names and paths changed,
// and kills a replica under load. Neither the SDK's callers nor workers notice; a stream continues;
// requests without retries get the documented responses.
func TestReplicasBehindNginx(t *testing.T) {
	t.Parallel()
	h := behindNginx(t, 2)
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { h.postUntil(t, stop) })
	seen := &statuses{n: map[string]int{}}
	for range 4 {
		load.Go(func() { seen.ask(t, h.web, stop) })
	}
	for i := range 4 {
		time.Sleep(700 * time.Millisecond) // the fault's moment, not a wait for something
		r := h.replicas[i%2]
		r.proc.kill()
		time.Sleep(300 * time.Millisecond) // how long it is down
		r.begin()
	}
	close(stop)
	load.Wait()
	seen.verify(t, "while replicas were killed 4 times")
	h.largeBody(t)
	h.web.redirects(t)
	eventually(t, "every task has ended", func() bool {
		s, err := h.api.Stats(t.Context())
		return err == nil && s.Tasks.ByStatus[bloom.TaskCompleted] == s.Tasks.Total
	})
}

// site is a harness of two replicas behind nginx.
type site struct {
	*harness
	replicas []*replica
	web      *nginx
	runs     string // the file in which each run is recorded
}

// behindNginx starts a site with so many workers, and waits until all of them poll.
func behindNginx(t *testing.T, workers int) *site {
	t.Helper()
	database, front := pgtest.Start(t), newBalancer(t) // before the harness, to outlive it
	h := newHarness(t)
	h.front = front
	s := &site{harness: h, replicas: h.replicas(2, database, "--trusted-proxy", "127.0.0.1"), runs: filepath.Join(h.dir, "runs")}
	for _, r := range s.replicas {
		r.begin()
	}
	s.web = h.nginx(s.replicas)
	h.url, h.api = s.web.url, s.web.api
	claude := quickClaude(t, s.runs)
	for i := range workers {
		h.work(workerOptions{name: fmt.Sprint("worker-", i), claude: claude,
			env: []string{"SSL_CERT_FILE=" + s.web.cert}, args: []string{"--max-concurrency", "4", "--lease-ttl", "30s"}})
	}
	eventually(t, "all workers poll", func() bool {
		now, err := h.api.Stats(t.Context())
		return err == nil && int(now.Workers.Online) == workers
	})
	return s
}

// postUntil posts tasks one after the other and follows each to its end.
func (h *harness) postUntil(t *testing.T, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		if !h.postAndFollow(t, n) {
			return
		}
	}
}

func (h *harness) postAndFollow(t *testing.T, n int) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	s := spec(fmt.Sprint("nginx ", n))
	s.Prompt, s.MaxAttempts = fmt.Sprintf("say done-%d; and nothing else", n), 10
	task, err := h.api.Submit(ctx, s)
	if err != nil {
		t.Errorf("submit: %v", err)
		return false
	}
	for _, err := range h.api.FollowEvents(ctx, task.ID, client.FollowOptions{}) {
		if err != nil {
			t.Errorf("follow: %v", err)
			return false
		}
	}
	return true
}

// largeBody sends a task and a file that are larger than nginx accepts by default.
func (s *site) largeBody(t *testing.T) {
	t.Helper()
	task := spec("large")
	task.Prompt = "say done-0; and then " + strings.Repeat("x", 3<<20)
	if _, err := s.api.Submit(t.Context(), task); err != nil {
		t.Errorf("a prompt of 3 MB: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"/api/runtime/llm-tasks/0199f000-0000-7000-8000-000000000000/artifacts?lease_id=none&path=a", strings.NewReader(strings.Repeat("x", 40<<20)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Runtime-API-Key", adminKey)
	resp, err := s.web.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestEntityTooLarge || resp.Header.Get("X-Request-Id") == "" {
		t.Errorf("a file of 40 MB did not reach the server: %s", resp.Status)
	}
}

// redirects checks that port 80 redirects to https, and that responses have HSTS.
func (n *nginx) redirects(t *testing.T) {
	t.Helper()
	c := &http.Client{Transport: n.http.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for url, want := range map[string][2]string{
		n.plain + "/tasks?status=dead": {"Location", "https://127.0.0.1/tasks?status=dead"}, n.url + "/health": {"Strict-Transport-Security", "max-age=31536000"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get(want[0]); got != want[1] {
			t.Errorf("%s: %d, %s: %s", url, resp.StatusCode, want[0], got)
		}
	}
}

// nginx is a running nginx server.
type nginx struct {
	url, plain, cert string
	http             *http.Client
	api              *client.Client
}

// nginx starts nginx with the configuration from the documentation.
func (h *harness) nginx(replicas []*replica) *nginx {
	h.t.Helper()
	program := "/usr/sbin/nginx"
	if path, err := exec.LookPath("nginx"); err == nil {
		program = path
	} else if _, err := os.Stat(program); err != nil {
		h.t.Skip("nginx is not installed; scripts/test-deps.sh installs it where it may")
	}
	dir := filepath.Join(h.dir, "nginx")
	cert, key := certificate(h.t, dir)
	address, plain := porttest.Address(h.t), porttest.Address(h.t)
	site := strings.NewReplacer(
		"10.0.0.11:5000", replicas[0].address, "10.0.0.12:5000", replicas[1].address,
		"listen 443 ssl;", "listen "+address+" ssl;", "bloom.example.org", "127.0.0.1",
		"/etc/ssl/bloom/fullchain.pem", cert, "/etc/ssl/bloom/privkey.pem", key, "listen 80;", "listen "+plain+";",
	).Replace(read(h.t, "../deploy/nginx/bloom.conf"))
	for _, r := range replicas {
		if !strings.Contains(site, r.address) {
			h.t.Fatalf("the configuration does not name both replicas:\n%s", site)
		}
	}
	self := "" // otherwise it runs as the user who started it
	if os.Geteuid() == 0 {
		self = "user root;\n"
	}
	file(h.t, filepath.Join(dir, "nginx.conf"), self+"daemon off;\npid "+dir+"/pid;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n"+
		"client_body_temp_path "+dir+"/body;\nproxy_temp_path "+dir+"/proxy;\nfastcgi_temp_path "+dir+"/fastcgi;\nuwsgi_temp_path "+dir+"/uwsgi;\nscgi_temp_path "+dir+"/scgi;\n"+
		site+"\n}\n")
	p := spawnProgram(h.t, "nginx", h.env(), program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
	h.servers = append(h.servers, p) // stopped with them
	pool := x509.NewCertPool()
	raw, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		h.t.Fatal("no certificate", err)
	}
	web := &nginx{url: "https://" + address, plain: "http://" + plain, cert: cert, http: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 16}, Timeout: 2 * patience,
	}}
	h.t.Cleanup(web.http.CloseIdleConnections)
	if web.api, err = client.New(web.url, client.Options{APIKey: adminKey, HTTPClient: web.http}); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, "nginx answers", func() bool {
		if p.ended() {
			h.t.Fatalf("nginx ended: %s", p.out.tail())
		}
		_, err := web.api.Stats(h.t.Context())
		return err == nil
	})
	return web
}
