package announce_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/proxytest"
)

// TestAProxysResponseIsNotMembridges: an agent is registered once, whatever a proxy answers to its
// registration and heartbeat, and neither its key nor its name counts as refused.
func TestAProxysResponseIsNotMembridges(t *testing.T) {
	t.Parallel()
	for name, answer := range proxytest.Answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var registrations, heartbeats atomic.Int64
			bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/heartbeat") {
					heartbeats.Add(1)
				} else {
					registrations.Add(1)
				}
				_, _ = io.WriteString(w, `{"ok":true,"name":"a","commands":[]}`)
			}))
			defer bridge.Close()
			proxy := proxytest.New(t, bridge.URL)
			last := func(r *http.Request) string { return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] }
			proxy.Answer(answer, last, 1, "agents", "heartbeat")
			c, err := mbclient.New(mbclient.Options{URL: proxy.URL, AgentKey: "key", Retries: mbclient.NoRetries})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			a := announce.New(announce.Config{Client: c, Interval: time.Second, Log: slog.New(slog.DiscardHandler),
				Registration: func() mbclient.Registration { return mbclient.Registration{Name: "a"} }})
			for step := range 2 {
				err := a.RunOnce(context.Background())
				var ours *bloom.Error
				if !errors.As(err, &ours) || ours.Code == bloom.CodeMembridgeForbidden {
					t.Errorf("round %d: %v", step, err)
				}
			}
			if err := a.RunOnce(context.Background()); err != nil {
				t.Error(err)
			}
			if registrations.Load() != 1 || heartbeats.Load() != 1 {
				t.Errorf("%d registrations, %d heartbeats", registrations.Load(), heartbeats.Load())
			}
		})
	}
}
