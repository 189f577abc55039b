package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// Verdict is what a check came to.
type Verdict string

// The verdicts.
const (
	Fine     Verdict = "ok"
	Doubtful Verdict = "note"  // works, but somebody should know
	Wrong    Verdict = "wrong" // stops the work
)

// Finding is one check of the doctor's.
type Finding struct {
	Name   string  `json:"name"`
	Status Verdict `json:"status"`
	Detail string  `json:"detail"`
	Fix    string  `json:"fix,omitempty"` // what to do; empty when nothing
}

// DoctorConfig says what is to be examined.
type DoctorConfig struct {
	DataDir string
	Listen  string
	URL     string
	Key     string
	TLS     *tls.Config // of calls to the server; nil for the system's
	Run     config.Run
}

const (
	doctorWait = 10 * time.Second
	minFree    = 1 << 30   // bytes; below it somebody should know
	tooFull    = 100 << 20 // bytes; below it writes will fail soon
	maxSkew    = 5 * time.Second
	// builtAfter: a clock that shows less has never been set; a Raspberry Pi has
	// no battery for it.
	builtAfter = 2025
)

// Examine looks at everything that stops people, spending nothing.
func Examine(ctx context.Context, c DoctorConfig) []Finding {
	reached, skew, server, workers := examineServer(ctx, c)
	findings := examineClaude(ctx, c.Run)
	// Where the running server's workers have a claude, this machine needs none.
	if has := workersWithClaude(workers); findings[0].Status == Wrong && len(has) > 0 {
		findings[0].Status = Doubtful
		findings[0].Detail += "; tasks run where there is one: " + strings.Join(has, ", ")
	}
	findings = append(findings, examineFolder(c.DataDir), examineDisk(c.DataDir), examineClock(time.Now()))
	findings = append(findings, examinePort(ctx, c.Listen, reached))
	findings = append(findings, server...)
	if skew != nil {
		findings = append(findings, examineSkew(skew.Abs()))
	}
	return findings
}

func examineClaude(ctx context.Context, run config.Run) []Finding {
	ctx, done := context.WithTimeout(ctx, 3*doctorWait)
	defer done()
	status, err := claude.Check(ctx, claudeConfig(run, "", nil, nil))
	var unusable *claude.Unusable
	switch {
	case errors.Is(err, claude.ErrNotFound):
		// The advice that comes with it for others is the fix here, and said once.
		where, _, _ := strings.Cut(err.Error(), "; ")
		return []Finding{{"claude", Wrong, where, "npm install -g @anthropic-ai/claude-code, or name it with --claude"}}
	case errors.As(err, &unusable):
		return []Finding{{"claude", Wrong, unusable.Why, unusable.Fix}}
	case err != nil:
		return []Finding{{"claude", Wrong, err.Error(), "run " + status.Path + " auth status and see what it says; reinstall it"}}
	}
	found := []Finding{{Name: "claude", Status: Fine, Detail: status.Version + " at " + status.Path}}
	login := Finding{Name: "login", Status: Fine, Detail: status.Login}
	if !status.LoggedIn {
		login.Status = Wrong
		login.Detail = "nobody is logged in, by this shell's environment and user; a running worker may have credentials of its own"
		login.Fix = "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN where the worker starts, or run " + status.Path + " and log in as the worker's user"
	}
	return append(found, login)
}

func examineFolder(dir string) Finding {
	f := Finding{Name: "folder", Status: Fine, Detail: dir + " is writable"}
	// What is missing is looked for further up, so that examining makes nothing.
	there := dir
	for {
		if _, err := os.Stat(there); err == nil || there == filepath.Dir(there) {
			break
		}
		there = filepath.Dir(there)
	}
	probe, err := os.CreateTemp(there, ".bloom-doctor-")
	if err != nil {
		return Finding{"folder", Wrong, fmt.Sprintf("%s cannot be written: %v", dir, err),
			"make it yours (chown), or name another with --data-dir"}
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if there != dir {
		f.Detail = dir + " is not there yet and can be made"
	}
	return f
}

func examineDisk(dir string) Finding {
	for {
		free, err := freeBytes(dir)
		if errors.Is(err, syscall.ENOENT) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return Finding{"disk", Doubtful, fmt.Sprintf("free space is not known: %v", err), ""}
		}
		detail := fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), dir)
		switch {
		case free < tooFull:
			return Finding{"disk", Wrong, detail, "make room, or name another folder with --data-dir"}
		case free < minFree:
			return Finding{"disk", Doubtful, detail, "make room before it is full; a server can remove what has ended, see: bloom retention --help"}
		}
		return Finding{Name: "disk", Status: Fine, Detail: detail}
	}
}

func freeBytes(dir string) (uint64, error) {
	free, _, err := space(dir)
	return free, err
}

// space is what a file system has for others than root, and its whole size.
func space(dir string) (free, total uint64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), fs.Blocks * uint64(fs.Bsize), nil
}

// diskOf is what health says of a folder's file system; nil when it is not known.
func diskOf(dir string) *httpapi.Disk {
	free, total, err := space(dir)
	if err != nil {
		return nil
	}
	return &httpapi.Disk{Free: free, Total: total, Low: free < minFree}
}

func examineClock(now time.Time) Finding {
	if now.Year() < builtAfter {
		return Finding{"clock", Wrong, "the clock says " + now.Format(time.DateOnly), "set it: timedatectl set-ntp true (or your system's way)"}
	}
	return Finding{Name: "clock", Status: Fine, Detail: now.Format(time.RFC3339)}
}

func examineSkew(skew time.Duration) Finding {
	if skew > maxSkew {
		return Finding{"clock skew", Doubtful, fmt.Sprintf("this clock and the server's differ by %s", skew.Round(time.Second)),
			"nothing breaks (the store's clock decides), but times will look odd: run NTP on both"}
	}
	return Finding{Name: "clock skew", Status: Fine, Detail: "this clock agrees with the server's"}
}

func examinePort(ctx context.Context, addr string, reached bool) Finding {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		_ = l.Close()
		return Finding{Name: "port", Status: Fine, Detail: addr + " is free"}
	}
	holder := PortHolder(addr)
	detail := addr + " is in use"
	if holder != "" {
		detail += " by " + holder
	}
	if reached && errors.Is(err, syscall.EADDRINUSE) {
		return Finding{Name: "port", Status: Fine, Detail: detail + ": a runtime is running"}
	}
	return Finding{"port", Wrong, detail, "stop that program, or choose another address: --listen 127.0.0.1:5001"}
}

// workersWithClaude are the names of the workers that can run tasks now.
func workersWithClaude(workers []bloom.Worker) (names []string) {
	for _, w := range workers {
		if w.Status == bloom.WorkerOnline && w.Capabilities.ClaudeCLI {
			names = append(names, w.ID)
		}
	}
	return names
}

// ofProblem says a problem that the running server has found.
func ofProblem(p bloom.Problem) Finding {
	f := Finding{Name: "server", Status: Doubtful, Detail: p.Sentence, Fix: p.Action}
	switch p.Severity {
	case bloom.SeverityError:
		f.Status = Wrong
	case bloom.SeverityInfo:
		f.Status, f.Fix = Fine, ""
	case bloom.SeverityWarning:
	}
	for prefix, name := range map[string]string{"workers": "workers", "no_workers": "workers", "all_workers": "workers", "tasks": "tasks", "queue": "tasks", "credentials": "login",
		"membridge": "membridge", "artifact": "artifacts", "certificate": "certificate", "keys": "keys", "disk": "disk", "worker_versions": "workers"} {
		if strings.HasPrefix(p.Code, prefix) {
			f.Name = name
		}
	}
	return f
}

// examineArtifacts says what the running server's artifact storage was found to do.
func examineArtifacts(s bloom.BlobState) Finding {
	where := "the data folder"
	if s.Kind == bloom.BlobsS3 {
		where = "object storage"
	}
	f := Finding{Name: "artifacts", Status: Fine, Detail: "kept in " + where + ", which can: " + strings.Join(s.Can, ", ")}
	if s.Kind == bloom.BlobsS3 && !s.CanDo("conditional_write") {
		f.Status, f.Fix = Doubtful, "artifacts need no conditional writes; bloom memory does: use a storage that knows If-Match for it"
	}
	return f
}

// examineWorkers says which workers run tasks; what is wrong with them is reported as
// problems.
func examineWorkers(workers []bloom.Worker) Finding {
	names := workersWithClaude(workers)
	if len(names) == 0 {
		return Finding{"workers", Doubtful, "no worker that has claude is online: tasks wait", "start one with bloom worker, or bloom up"}
	}
	return Finding{Name: "workers", Status: Fine, Detail: "online with claude: " + strings.Join(names, ", ")}
}

// examineServer reports whether a runtime answers, by how much this clock is ahead of
// its (nil when that is not known), what was found, and the server's workers.
func examineServer(ctx context.Context, c DoctorConfig) (reached bool, skew *time.Duration, found []Finding, workers []bloom.Worker) {
	ctx, done := context.WithTimeout(ctx, doctorWait)
	defer done()
	through := http.DefaultTransport.(*http.Transport).Clone()
	through.TLSClientConfig = c.TLS
	defer through.CloseIdleConnections()
	api, err := client.New(c.URL, client.Options{APIKey: c.Key, Retry: client.NoRetry, HTTPClient: &http.Client{Transport: &dates{through, &skew}}})
	if err != nil {
		return false, skew, []Finding{{"server", Wrong, err.Error(), "give an address like http://127.0.0.1:5000 with --url"}}, nil
	}
	health, err := api.Health(ctx)
	if err != nil {
		f, reached := examineNoHealth(c.URL, err)
		return reached, skew, append([]Finding{f}, examineProblems(ctx, api)...), nil
	}
	found = append(found, Finding{Name: "server", Status: Fine, Detail: fmt.Sprintf("%s is well (%s)", c.URL, health.Storage)})
	if health.Artifacts != nil && health.Artifacts.Connected { // else it is reported as a problem
		found = append(found, examineArtifacts(*health.Artifacts))
	}
	if workers, err = api.Workers(ctx); err == nil {
		found = append(found, Finding{Name: "key", Status: Fine, Detail: "accepted"}, examineWorkers(workers))
		return true, skew, append(found, examineProblems(ctx, api)...), workers
	}
	return true, skew, append(found, examineRefusal(c, err)), nil
}

// examineRefusal says what a caller lacks whom the server does not let in.
func examineRefusal(c DoctorConfig, err error) Finding {
	var api *client.APIError
	fix := "give the right key with --key-file FILE or BLOOM_API_KEY"
	switch {
	case errors.As(err, &api) && api.Err.Code == bloom.CodeNoCertificate:
		fix = "give the certificate with --client-cert FILE and --client-key FILE"
	case c.Key == "":
		fix = "the server wants a key: give it with --key-file FILE or BLOOM_API_KEY"
	}
	return Finding{"key", Wrong, err.Error(), fix}
}

// examineProblems are the problems that the running server has found; none of a server
// that does not answer, or does not know them yet.
func examineProblems(ctx context.Context, api *client.Client) (found []Finding) {
	problems, err := api.Problems(ctx)
	if err != nil {
		return nil
	}
	for _, p := range problems.Problems {
		found = append(found, ofProblem(p))
	}
	return found
}

// examineNoHealth says why the server gave no account of itself, and whether it is one
// that answers.
func examineNoHealth(url string, err error) (f Finding, reached bool) {
	var untrusted *tls.CertificateVerificationError
	var away *client.Unreachable
	switch {
	case !errors.As(err, &away):
		return Finding{"server", Wrong, fmt.Sprintf("%s answers, but is not well: %v", url, err), "look at the server's log"}, true
	case errors.As(err, &untrusted):
		return Finding{"server", Wrong, fmt.Sprintf("the certificate of %s is not trusted: %v", url, untrusted.Err),
			"replace the server's certificate (it reads the files again by itself), or name the authority with --ca-file"}, true
	case away.Sent:
		return Finding{"server", Wrong, fmt.Sprintf("%s takes connections and does not answer: %v", url, err), "look at the server's log"}, true
	}
	return Finding{"server", Wrong, "no runtime answers at " + url, "start one with bloom up, or name another with --url"}, false
}

// dates notes by how much this clock is ahead of the server's, when an answer comes.
type dates struct {
	through http.RoundTripper
	skew    **time.Duration
}

func (d *dates) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.through.RoundTrip(r)
	if err == nil {
		if t, err := http.ParseTime(res.Header.Get("Date")); err == nil {
			ahead := time.Since(t)
			*d.skew = &ahead
		}
	}
	return res, err
}
