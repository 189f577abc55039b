package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// A connection that is closed without a response does not end a stream.
func TestAStreamGoesOnAfterAConnectionWithoutAResponse(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send := func(event string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(event))
			_ = http.NewResponseController(w).Flush()
		}
		n := requests.Add(1)
		switch n {
		case 1:
			send("id: 1\nevent: created\ndata: {\"seq\":1,\"type\":\"created\"}\n\n")
		case 3:
			send("id: 2\nevent: completed\ndata: {\"seq\":2,\"type\":\"completed\"}\n\n")
			return
		}
		panic(http.ErrAbortHandler) // closes the connection
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seen []int64
	for e, err := range c.FollowEvents(bounded(t), "task", client.FollowOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e.Seq)
		if e.Type == bloom.EventCompleted && e.Seq != 2 {
			t.Errorf("%+v", e)
		}
	}
	if len(seen) != 2 || requests.Load() < 3 {
		t.Errorf("events %v after %d requests", seen, requests.Load())
	}
}
