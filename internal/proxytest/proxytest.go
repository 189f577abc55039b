// Package proxytest gives tests a reverse proxy that answers in its server's
// stead, as proxies, captive portals and other programs on a port do.
package proxytest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Answers are answers that are not the server's, by what they are.
var Answers = map[string]http.HandlerFunc{
	"200 HTML":           html(http.StatusOK),
	"200 empty":          text(http.StatusOK, ""),
	"200 empty object":   body(http.StatusOK, `{}`),
	"200 null":           body(http.StatusOK, `null`),
	"200 another's JSON": body(http.StatusOK, `{"status":"ok","id":0}`),
	"200 truncated JSON": body(http.StatusOK, `{"id":"019`),
	"200 cut":            cut,
	"204":                func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	"302 to a captive portal": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/login", http.StatusFound)
	},
	"400 plain text":     text(http.StatusBadRequest, "400 Bad Request: malformed Host header"),
	"400 another's JSON": body(http.StatusBadRequest, `{"error":"bad request","code":400}`),
	"401 HTML":           html(http.StatusUnauthorized),
	"403 HTML":           html(http.StatusForbidden),
	"403 another's JSON": body(http.StatusForbidden, `{"error":"forbidden"}`),
	"404 plain text":     text(http.StatusNotFound, "404 page not found\n"),
	"404 HTML":           html(http.StatusNotFound),
	"409 another's JSON": body(http.StatusConflict, `{"error":"conflict","message":"stale"}`),
	"409 empty":          text(http.StatusConflict, ""),
	"413 HTML":           html(http.StatusRequestEntityTooLarge),
	"502 HTML":           html(http.StatusBadGateway),
	"503 truncated JSON": body(http.StatusServiceUnavailable, `{"error":"no`),
}

func body(status int, json string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(json))
	}
}

func text(status int, s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(s))
	}
}

func html(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html><head><title>" + http.StatusText(status) + "</title></head></html>\r\n"))
	}
}

// cut promises more than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"id":"0190`))
}

// Proxy stands before a server until the test ends.
type Proxy struct {
	URL string

	mu     sync.Mutex
	answer http.HandlerFunc
	step   func(*http.Request) string
	left   map[string]int
}

// New starts a proxy that passes everything on.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{}
	pass := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.next(r); answer != nil {
			answer(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p.URL = front.URL
	return p
}

// Answer gives the answer to the first n requests of each of the steps, as step
// names them.
func (p *Proxy) Answer(answer http.HandlerFunc, step func(*http.Request) string, n int, steps ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.step, p.left = answer, step, map[string]int{}
	for _, s := range steps {
		p.left[s] = n
	}
}

// Left are the steps that the answer was not given to as often as it should.
func (p *Proxy) Left() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := map[string]int{}
	for s, n := range p.left {
		if n > 0 {
			left[s] = n
		}
	}
	return left
}

func (p *Proxy) next(r *http.Request) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.step == nil {
		return nil
	}
	s := p.step(r)
	if p.left[s] == 0 {
		return nil
	}
	p.left[s]--
	return p.answer
}
