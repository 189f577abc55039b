// Package installer serves the script and the binaries that make a machine a worker. It contains no
// secrets and knows nothing about tasks.
package installer

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"
)

//go:embed install.sh
var script []byte

// platforms are the architectures of the releases.
var platforms = []string{"amd64", "arm64", "armv7"}

// Handler serves the script and the binaries. It is safe for concurrent use.
type Handler struct {
	programs map[string]string // file by platform
	sums     map[string]*sum
	overTLS  func(*http.Request) bool
	log      *slog.Logger
}

// New serves this program for machines of the same architecture, and for others the files
// bloom-linux-amd64, -arm64 and -armv7 in dist, as written by make cross; dist may be "". overTLS
// reports whether a request came over TLS.
func New(dist string, overTLS func(*http.Request) bool, log *slog.Logger) (*Handler, error) {
	h := &Handler{programs: map[string]string{here(): self}, sums: map[string]*sum{}, overTLS: overTLS, log: log}
	if dist != "" {
		found := false
		for _, p := range platforms {
			file := filepath.Join(dist, fileName(p))
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				h.programs[p], found = file, true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s: there is no bloom-linux-amd64, -arm64 or -armv7 (make cross writes them)", dist)
		}
	}
	for p, file := range h.programs {
		h.sums[p] = &sum{file: file}
	}
	return h, nil
}

// self is the running executable, even if its file has been replaced.
const self = "/proc/self/exe"

// here returns this machine's architecture as releases name it.
func here() string {
	if runtime.GOARCH == "arm" {
		return "armv7"
	}
	return runtime.GOARCH
}

func fileName(platform string) string { return "bloom-linux-" + platform }

// saneHost matches a Host header that is safe to insert into a script.
var saneHost = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// Routes returns the patterns that the handler serves.
func (h *Handler) Routes() []string { return []string{"GET /install.sh", "GET /download/{file}"} }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch file := r.PathValue("file"); file {
	case "":
		h.script(w, r)
	case "SHA256SUMS":
		h.checksums(w)
	default:
		h.program(w, r, file)
	}
}

// script serves the installer with the URL under which it was requested, which is this server's.
func (h *Handler) script(w http.ResponseWriter, r *http.Request) {
	if !saneHost.MatchString(r.Host) {
		http.Error(w, "the request's Host header is invalid", http.StatusBadRequest)
		return
	}
	scheme := "http"
	if h.overTLS(r) {
		scheme = "https"
	}
	w.Header().Set("Content-Type", "text/x-shellscript; charset=utf-8")
	_, _ = w.Write(bytes.Replace(script, []byte("@SERVER@"), []byte(scheme+"://"+r.Host), 1)) //nolint:gosec // the host is a name or an address, and the answer is no page
}

func (h *Handler) checksums(w http.ResponseWriter) {
	var list bytes.Buffer
	for _, p := range platforms {
		s := h.sums[p]
		if s == nil {
			continue
		}
		hash, err := s.of()
		if err != nil {
			h.log.Error("cannot read a program for another platform", "error", err)
			http.Error(w, "cannot read a program; see the server's log", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(&list, "%s  %s\n", hash, fileName(p))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(list.Bytes())
}

func (h *Handler) program(w http.ResponseWriter, r *http.Request, file string) {
	i := slices.IndexFunc(platforms, func(p string) bool { return fileName(p) == file })
	if i < 0 || h.programs[platforms[i]] == "" {
		http.Error(w, "this server has no program for that platform; start it with --dist-dir and the folder that make cross writes", http.StatusNotFound)
		return
	}
	f, err := os.Open(h.programs[platforms[i]])
	if err != nil {
		h.log.Error("cannot read a program for another platform", "error", err)
		http.Error(w, "the program no longer exists on this server", http.StatusNotFound)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
}

// sum is a file's SHA-256, recomputed when the file changes.
type sum struct {
	file string

	mu   sync.Mutex
	info fs.FileInfo
	hash string
}

func (s *sum) of() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.Open(s.file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if s.info != nil && os.SameFile(s.info, info) && s.info.ModTime().Equal(info.ModTime()) && s.info.Size() == info.Size() {
		return s.hash, nil
	}
	digest := sha256.New()
	if n, err := io.Copy(digest, f); err != nil || n != info.Size() {
		return "", errors.Join(err, errors.New(s.file+" changed while it was read"))
	}
	s.info, s.hash = info, hex.EncodeToString(digest.Sum(nil))
	return s.hash, nil
}
