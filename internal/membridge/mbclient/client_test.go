package mbclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.UnixMilli(1_772_042_245_043) }

// firstWait is short, so that tests need not wait; package retry tests the real waits.
const firstWait = 10 * time.Millisecond

func dial(t testing.TB, url string, change ...func(*mbclient.Options)) *mbclient.Client {
	t.Helper()
	opt := mbclient.Options{URL: url, Key: "the-admin-key-of-a-test", Clock: fixedClock{}, Backoff: firstWait}
	for _, c := range change {
		c(&opt)
	}
	c, err := mbclient.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func code(err error) string {
	var e *bloom.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestOnlyWhatMayBeRepeatedIsRepeatedWithGrowingWaits(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { tries.Add(1); w.WriteHeader(503) })
	for _, c := range []struct {
		name  string
		call  func(*mbclient.Client) error
		tries int
	}{
		{"a read", func(c *mbclient.Client) error { _, err := c.Agents(t.Context()); return err }, 4},
		{"a registration", func(c *mbclient.Client) error {
			_, err := c.RegisterAgent(t.Context(), mbclient.Registration{})
			return err
		}, 4},
		{"a passed-on POST", func(c *mbclient.Client) error { _, _, err := c.Do(t.Context(), "POST", "/x", nil); return err }, 1},
		{"a passed-on GET", func(c *mbclient.Client) error { _, _, err := c.Do(t.Context(), "GET", "/x", nil); return err }, 4},
		{"a health check", func(c *mbclient.Client) error { _, err := c.Health(t.Context()); return err }, 1},
	} {
		tries.Store(0)
		client := dial(t, url)
		began := time.Now()
		if err := c.call(client); code(err) != bloom.CodeMembridgeFailed {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := time.Since(began); int(tries.Load()) != c.tries || took < firstWait*(1<<(c.tries-1)-1) {
			t.Errorf("%s: %d tries in %v", c.name, tries.Load(), took)
		}
		if s := client.State(); s.ConsecutiveFailures != c.tries || s.Connected || *s.LastError != "Membridge answered 503" {
			t.Errorf("%s: state %+v", c.name, s)
		}
	}
}

func TestRecoveryShowsInTheState(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(500)
			return
		}
		io.WriteString(w, `[]`)
	})
	client := dial(t, url)
	asJSON := func() string { b, _ := json.Marshal(client.State()); return string(b) }
	if got := asJSON(); got != `{"consecutiveFailures":0,"lastSuccess":null,"lastError":null,"connected":false}` {
		t.Error(got)
	}
	broken.Store(true)
	client.Agents(t.Context())
	if got := asJSON(); got != `{"consecutiveFailures":4,"lastSuccess":null,"lastError":"Membridge answered 500","connected":false}` {
		t.Error(got)
	}
	broken.Store(false)
	if _, err := client.Agents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := asJSON(); got != `{"consecutiveFailures":0,"lastSuccess":1772042245043,"lastError":null,"connected":true}` {
		t.Error(got)
	}
}

func TestAFailedJobIsReturnedToTheCaller(t *testing.T) {
	t.Parallel()
	body := `{"detail":"Agent unreachable: it is offline","job_id":"j1"}`
	client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(502)
		io.WriteString(w, body)
	}))
	status, answer, err := client.Do(t.Context(), "POST", "/sync/push", []byte(`{}`))
	if err != nil || status != 502 || string(answer) != body || !client.State().Connected {
		t.Errorf("%d %s %v, %+v", status, answer, err, client.State())
	}
	for _, body = range []string{`{"detail":"bad gateway"}`, `<html>`, ``, `{"job_id":"j1"}`} {
		if _, _, err := client.Do(t.Context(), "POST", "/sync/push", []byte(`{}`)); code(err) != bloom.CodeMembridgeFailed {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func Test4xxComesBackAtOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		status := map[string]int{"/missing": 404, "/conflict": 409, "/no": 401, "/never": 403}[r.URL.Path]
		w.WriteHeader(status)
		io.WriteString(w, `{"detail":"so it is"}`)
	})
	client := dial(t, url)
	for path, want := range map[string]int{"/missing": 404, "/conflict": 409} {
		status, body, err := client.Do(t.Context(), "GET", path, nil)
		if status != want || err != nil || string(body) != `{"detail":"so it is"}` || !client.State().Connected {
			t.Errorf("%s: %d %s %v", path, status, body, err)
		}
	}
	for _, path := range []string{"/no", "/never"} {
		if _, _, err := client.Do(t.Context(), "GET", path, nil); code(err) != bloom.CodeMembridgeForbidden {
			t.Errorf("%s: %v", path, err)
		}
	}
	if asked.Load() != 4 || client.State().Connected {
		t.Errorf("asked %d times, state %+v", asked.Load(), client.State())
	}
}

func TestACancelledRequestIsNotMembridgesFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		cancel()
		<-r.Context().Done()
	})
	client := dial(t, url)
	for range 2 {
		if _, err := client.Agents(ctx); err == nil {
			t.Fatal("an answer for a caller that has gone")
		}
	}
	if client.State().ConsecutiveFailures != 0 || asked.Load() != 1 {
		t.Errorf("state %+v, asked %d times", client.State(), asked.Load())
	}
}

func TestTheSameRouteIsAskedForEveryCall(t *testing.T) {
	t.Parallel()
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.EscapedPath()+" "+string(b))
		io.WriteString(w, `{}`)
	})
	c := dial(t, url)
	ctx := t.Context()
	c.Health(ctx)
	c.Check(ctx)
	c.AgentHeartbeat(ctx, "w 1", mbclient.Heartbeat{WaitSec: 5})
	want := []string{"GET /health ", "GET /projects ", `POST /agents/w%201/heartbeat {"wait_sec":5}`}
	if !slices.Equal(asked, want) {
		t.Error(cmp.Diff(want, asked))
	}
}
