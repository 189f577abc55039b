package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// recorder records the requests to a stand-in.
type recorder struct {
	mu      sync.Mutex
	got     []recorded
	hang    chan struct{} // nil: nothing hangs
	command string        // a command for an agent
}

type recorded struct {
	path   string
	header http.Header
	body   map[string]any
}

func (r *recorder) note(q *http.Request, body map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, recorded{q.URL.Path, q.Header.Clone(), body})
}

// count returns how many requests so far meet the condition.
func (r *recorder) count(fits func(recorded) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.got {
		if fits(one) {
			n++
		}
	}
	return n
}

// with is the condition that a header has the value.
func with(header, value string) func(recorded) bool {
	return func(r recorded) bool { return slices.Contains(r.header.Values(header), value) }
}

// order makes the responses to heartbeats contain a command.
func (r *recorder) order(command string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.command = command
}

// stall makes health hang until release.
func (r *recorder) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang = make(chan struct{})
}

func (r *recorder) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hang != nil {
		close(r.hang)
		r.hang = nil
	}
}

// membridge is a stand-in for the control plane.
func (r *recorder) membridge() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(q.Body).Decode(&body)
		r.note(q, body)
		r.mu.Lock()
		hang, command := r.hang, r.command
		r.mu.Unlock()
		if hang != nil && q.URL.Path == "/health" {
			<-hang
		}
		answer := `{"status":"ok","service":"membridge-control-plane","name":"somebody"}`
		switch {
		case q.URL.Path == "/agent/heartbeat":
			answer = `{"ok":true,"role":"unknown","canonical_id":"x"}`
		case strings.HasSuffix(q.URL.Path, "/heartbeat") && command != "":
			answer = `{"name":"somebody","commands":[` + command + `]}`
		}
		if q.Method == http.MethodGet && q.URL.Path != "/health" {
			answer = `[]`
		}
		_, _ = io.WriteString(w, answer)
	})
}
