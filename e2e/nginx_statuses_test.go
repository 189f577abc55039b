package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// statuses counts the responses to requests that are not retried.
type statuses struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *statuses) ask(t *testing.T, web *nginx, stop <-chan struct{}) {
	const body = `{"context_id":"bare","agent_slug":"assistant","prompt":"say done-1; and nothing else","max_attempts":10}`
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		method, path, content := http.MethodGet, "/stats", ""
		if n%16 == 0 {
			method, path, content = http.MethodPost, "/llm-tasks", body
		}
		req, err := http.NewRequestWithContext(t.Context(), method, web.url+"/api/runtime"+path, strings.NewReader(content))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("X-Runtime-API-Key", adminKey)
		req.Header.Set("Content-Type", "application/json")
		seen := method + " "
		if resp, err := web.http.Do(req); err != nil {
			seen += err.Error()
		} else {
			seen += fmt.Sprint(resp.StatusCode)
			_ = resp.Body.Close()
		}
		s.mu.Lock()
		s.n[seen]++
		s.mu.Unlock()
		time.Sleep(5 * time.Millisecond) // a client's own pause, not a wait for something
	}
}

// verify expects that all succeeded, except a POST whose connection broke: nginx cannot know
// whether the server had acted on it.
func (s *statuses) verify(t *testing.T, during string) {
	t.Helper()
	t.Logf("bare requests without a second try, %s: %v", during, s.n)
	for status := range s.n {
		if status != "GET 200" && status != "POST 201" && status != "POST 502" {
			t.Errorf("bare requests saw %v", s.n)
		}
	}
}
