package membridge_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

var sizes = []int{10, 1_000, 10_000}

var databases = map[string]func(b *testing.B, c *membridge.Config){
	"sqlite":   func(*testing.B, *membridge.Config) {},
	"postgres": func(b *testing.B, c *membridge.Config) { c.DatabaseURL = pgtest.Start(b) },
}

// serveOnce calls the handler without a network.
func serveOnce(b *testing.B, p *plane, method, path, body string) int {
	r := httptest.NewRequest(method, path, bytes.NewBufferString(body))
	r.Header.Set(membridge.AdminHeader, adminKey)
	r.Header.Set("Content-Type", "application/json")
	w := &counting{header: http.Header{}}
	p.Handler().ServeHTTP(w, r)
	if w.status >= 300 {
		b.Errorf("%s %s: %d", method, path, w.status)
	}
	return w.n
}

type counting struct {
	header http.Header
	status int
	n      int
}

func (c *counting) Header() http.Header         { return c.header }
func (c *counting) WriteHeader(status int)      { c.status = status }
func (c *counting) Write(b []byte) (int, error) { c.n += len(b); return io.Discard.Write(b) }

func overSizes(b *testing.B, run func(b *testing.B, p *plane, agents int)) {
	for name, configure := range databases {
		for _, agents := range sizes {
			b.Run(fmt.Sprintf("%s/agents=%d", name, agents), func(b *testing.B) {
				p := start(b, func(c *membridge.Config) { c.Clock = nil; configure(b, c) })
				fill(b, p, agents)
				b.ResetTimer()
				run(b, p, agents)
			})
		}
	}
}

// fill registers the agents concurrently.
func fill(b *testing.B, p *plane, agents int) {
	var next atomic.Int64
	b.SetParallelism(64)
	done := make(chan struct{})
	for range 64 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := next.Add(1); i <= int64(agents); i = next.Add(1) {
				serveOnce(b, p, "POST", "/agents", fmt.Sprintf(`{"name":"a%d","ip_addrs":["10.0.0.1"],"capabilities":{"labels":["production"]}}`, i))
			}
		}()
	}
	for range 64 {
		<-done
	}
	runtime.GC()
}

// BenchmarkHeartbeat measures durable heartbeats, 128 concurrent ones.
func BenchmarkHeartbeat(b *testing.B) {
	overSizes(b, func(b *testing.B, p *plane, agents int) {
		var n atomic.Int64
		b.SetParallelism(128 / runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				serveOnce(b, p, "POST", fmt.Sprintf("/agents/a%d/heartbeat", n.Add(1)%int64(agents)+1), `{"load":{"running":1}}`)
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
	})
}

// BenchmarkListAgents measures one round of the runtime's sync on this side.
func BenchmarkListAgents(b *testing.B) {
	overSizes(b, func(b *testing.B, p *plane, _ int) {
		size := 0
		for b.Loop() {
			size = serveOnce(b, p, "GET", "/agents", "")
		}
		b.ReportMetric(float64(size), "bytes/answer")
	})
}
