// Package webui serves the built web application from the binary. It knows
// nothing of the API. It embeds what the last `make web` left in dist, however old;
// without that it serves a page that says so.
package webui

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var embedded embed.FS

//go:embed missing.html
var missing []byte

// reserved are the first path segments that never belong to the application.
var reserved = []string{"api", "metrics", "health", "healthz", "readyz", "openapi.json", "install.sh", "download"}

// pages are the first path segments of the application's pages. "" is the overview.
var pages = []string{"", "tasks", "contexts", "workers", "leases", "artifacts", "audit", "membridge", "settings", "sign-in", "docs"}

// policy forbids loading anything from other hosts, and inline styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; frame-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// inlinePolicy is for pages that show no data of tasks and have inline styles: the API reference
// (RapiDoc), and the page that says that the application is missing.
var inlinePolicy = strings.Replace(policy, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)

// Handler serves the application's pages and files. It is safe for concurrent use.
type Handler struct{ files map[string]file }

// file is the content of one file by encoding; "" is none. Each is read at its first use, and all
// requests share it, so that memory does not depend on the number of requests.
type file map[string]func() []byte

// New serves the application that was built into the binary.
func New() *Handler {
	files, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return From(files)
}

// From serves the application in files.
func From(files fs.FS) *Handler {
	h := &Handler{files: map[string]file{}}
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, encoding := path, ""
		for suffix, of := range map[string]string{".gz": "gzip", ".br": "br"} {
			if plain, is := strings.CutSuffix(path, suffix); is {
				name, encoding = plain, of
			}
		}
		if h.files[name] == nil {
			h.files[name] = file{}
		}
		h.files[name][encoding] = sync.OnceValue(func() []byte {
			content, _ := fs.ReadFile(files, path) // embedded
			return content
		})
		return nil
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	for _, f := range h.files {
		if zipped := f["gzip"]; f[""] == nil && zipped != nil {
			f[""] = sync.OnceValue(func() []byte { return unzip(zipped()) })
		}
	}
	return h
}

// Built reports whether the binary has the whole application.
func (h *Handler) Built() bool { return h.has("index.html") }

// Serves reports whether the application should handle the request.
func (h *Handler) Serves(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	first := firstSegment(r.URL.Path)
	if first == "docs" { // paths below it belong to the page for binaries without the application
		return r.URL.Path == "/docs" && h.Built()
	}
	if slices.Contains(reserved, first) {
		return false
	}
	return slices.Contains(pages, first) || h.has(fileName(r.URL.Path)) ||
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := fileName(r.URL.Path)
	if h.has(name) {
		h.serve(w, r, name, http.StatusOK)
		return
	}
	status := http.StatusOK
	if !slices.Contains(pages, firstSegment(r.URL.Path)) {
		status = http.StatusNotFound // the application shows its own message
	}
	if !h.Built() {
		header(w, "text/html; charset=utf-8", "no-cache", inlinePolicy)
		w.WriteHeader(status)
		_, _ = w.Write(missing)
		return
	}
	h.serve(w, r, "index.html", status)
}

func firstSegment(p string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return first
}

func fileName(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// has reports whether the file exists, compressed or not.
func (h *Handler) has(name string) bool {
	if name == "" || strings.HasPrefix(path.Base(name), ".") {
		return false
	}
	return h.files[name][""] != nil
}

// serve writes a file in the best encoding that the client accepts.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string, status int) {
	cache := "no-cache"
	if strings.HasPrefix(name, "assets/") {
		cache = "public, max-age=31536000, immutable" // their names contain a hash of the content
	}
	styles := policy
	if r.URL.Path == "/docs" {
		styles = inlinePolicy
	}
	header(w, mediaType(name), cache, styles)
	w.Header().Add("Vary", "Accept-Encoding")
	content, encoding := h.files[name].encoded(r.Header.Get("Accept-Encoding"))
	if encoding != "" {
		w.Header().Set("Content-Encoding", encoding)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

// encoded returns the best encoding that the client accepts.
func (f file) encoded(accept string) (content []byte, encoding string) {
	for _, encoding := range []string{"br", "gzip"} {
		if read := f[encoding]; read != nil && accepts(accept, encoding) {
			return read(), encoding
		}
	}
	return f[""](), ""
}

func accepts(accept, encoding string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(name, encoding) {
			weight = strings.ReplaceAll(weight, " ", "")
			return weight != "q=0" && !strings.HasPrefix(weight, "q=0.000")
		}
	}
	return false
}

func unzip(content []byte) []byte {
	in, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil
	}
	plain, _ := io.ReadAll(in) // compressed at build time
	return plain
}

func mediaType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".webmanifest":
		return "application/manifest+json"
	case ".woff2":
		return "font/woff2"
	default:
		return mime.TypeByExtension(ext)
	}
}

func header(w http.ResponseWriter, media, cache, policy string) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", cache)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
}
