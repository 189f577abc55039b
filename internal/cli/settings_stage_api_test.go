package cli_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// url is where the role listens; for a worker, the runtime's URL.
func (s *stage) url() string {
	s.Helper()
	if s.rt != nil {
		return s.rt.URL
	}
	return s.says(readyLines[s.role])
}

// bridgeURL is where the role's own membridge listens.
func (s *stage) bridgeURL() string {
	s.Helper()
	if s.role == "up" {
		return s.says(`the control plane, is at (https?://\S+)`)
	}
	return s.url()
}

// call sends a request and returns status and body.
func (s *stage) call(method, url, body string, header ...string) (int, string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return res.StatusCode, string(raw)
}

// wants checks the status of a response once the role has started: it prints its address a moment
// before it is ready.
func (s *stage) wants(status int, method, url, body string, header ...string) {
	s.Helper()
	var got int
	var text string
	s.await("a role that has started", func() bool {
		got, text = s.call(method, url, body, header...)
		return got != http.StatusServiceUnavailable || !strings.Contains(text, `"status":"starting"`)
	})
	if got != status {
		s.Errorf("%s %s with %q: %d, want %d: %s", method, url, header, got, status, text)
	}
}

func (s *stage) api() *client.Client {
	s.Helper()
	c, err := client.New(s.url(), client.Options{APIKey: s.key})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// submit posts a task for the worker, with its label.
func (s *stage) submit(prompt string) bloom.Task {
	s.Helper()
	return s.submitIn("a context", prompt)
}

func (s *stage) submitIn(contextID, prompt string) bloom.Task {
	s.Helper()
	task, err := s.api().Submit(s.Context(), bloom.TaskSpec{ContextID: contextID, AgentSlug: "poet", Prompt: prompt, MaxAttempts: 1})
	if err != nil {
		s.Fatal(err)
	}
	return task
}

// finished submits a task and waits for its end.
func (s *stage) finished(prompt string) bloom.Task {
	s.Helper()
	return s.awaited(s.submit(prompt))
}

func (s *stage) awaited(task bloom.Task) bloom.Task {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), stageLimit)
	defer cancel()
	task, err := s.api().Await(ctx, task.ID)
	if err != nil {
		s.Fatal(err)
	}
	return task
}

func (s *stage) worker() bloom.Worker {
	s.Helper()
	var found bloom.Worker
	s.await("a worker that is online", func() bool {
		list, err := s.api().Workers(s.Context())
		for _, w := range list {
			if w.Status == bloom.WorkerOnline {
				found = w
			}
		}
		return err == nil && found.ID != ""
	})
	return found
}

// heldTask creates a task that another worker holds.
func (s *stage) heldTask() string {
	s.Helper()
	s.call("POST", s.url()+"/api/runtime/workers", `{"name":"holder","capabilities":{"labels":["held"],"max_concurrency":8}}`)
	_, text := s.call("POST", s.url()+"/api/runtime/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p","labels":["held"]}`)
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)[1]
	s.wants(201, "POST", s.url()+"/api/runtime/llm-tasks/"+id+"/lease", `{"worker_id":"holder"}`)
	return id
}
