// Package standin is a local stand-in for the model's Messages API, so that the
// real claude command line runs offline: in tests, and in the demonstration
// that needs no account. It serves the requests of the command line (HEAD /, POST /v1/messages as a
// stream, POST /v1/messages/count_tokens). Tests script every reply; the demo gives canned replies,
// labelled as such.
//
// It knows nothing about tasks or how claude is run.
package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Responder decides the reply to one request to the model.
type Responder func(Request) Reply

// Server is the stand-in. It is an http.Handler and safe for concurrent use.
type Server struct {
	respond Responder

	mu       sync.Mutex
	requests []Request
	arrived  chan struct{} // closed and replaced with every request, for Wait
}

var _ http.Handler = (*Server)(nil)

// New returns a stand-in that answers every request to the model with respond's reply.
func New(respond Responder) *Server {
	return &Server{respond: respond, arrived: make(chan struct{})}
}

// Sequence returns the given replies in order and repeats the last one.
func Sequence(replies ...Reply) Responder {
	var mu sync.Mutex
	next := 0
	return func(Request) Reply {
		mu.Lock()
		defer mu.Unlock()
		if len(replies) == 0 {
			return Reply{Text: "nothing was scripted"}
		}
		reply := replies[min(next, len(replies)-1)]
		next++
		return reply
	}
}

// Requests returns a copy of the requests to the model so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Arrived returns the number of requests to the model so far, and a channel that is closed on the
// next one.
func (s *Server) Arrived() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests), s.arrived
}

// ServeHTTP serves the Messages API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/messages" && r.Method == http.MethodPost:
		s.messages(w, r)
	case r.URL.Path == "/v1/messages/count_tokens" && r.Method == http.MethodPost:
		_, _ = io.Copy(io.Discard, r.Body)
		writeJSON(w, http.StatusOK, map[string]int{"input_tokens": 10})
	case r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet):
		w.WriteHeader(http.StatusOK)
	default:
		writeError(w, http.StatusNotFound, "not_found_error", "the stand-in does not know this address")
	}
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller disconnected
	}
	request := Request{Header: r.Header.Clone(), Raw: body}
	if err := json.Unmarshal(body, &request); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body is not JSON")
		return
	}
	s.record(request)
	reply := s.respond(request)
	if !reply.wait(r.Context()) {
		return
	}
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	if reply.Status >= http.StatusBadRequest {
		writeError(w, reply.Status, reply.ErrorType, reply.ErrorMessage)
		return
	}
	if !request.Stream && !reply.Broken {
		writeJSON(w, http.StatusOK, reply.message(request.Model))
		return
	}
	reply.stream(w, r.Context(), request.Model)
}

func (s *Server) record(request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	close(s.arrived)
	s.arrived = make(chan struct{})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have disconnected
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{
		"type":  "error",
		"error": map[string]string{"type": strings.TrimSpace(kind), "message": message},
	})
}
