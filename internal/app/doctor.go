package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
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

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Fine     Verdict = "ok"
	Doubtful Verdict = "note"  // works, but needs attention
	Wrong    Verdict = "wrong" // stops the work
)

// Finding is the result of one check.
type Finding struct {
	Name   string  `json:"name"`
	Status Verdict `json:"status"`
	Detail string  `json:"detail"`
	Fix    string  `json:"fix,omitempty"` // what to do; empty for nothing
}

// DoctorConfig configures what is checked.
type DoctorConfig struct {
	DataDir string
	Listen  string // "" for a server on another machine
	URL     string
	Key     string
	TLS     *tls.Config // for requests to the server; nil for the system's
	Run     config.Run
}

const (
	doctorWait = 10 * time.Second
	minFree    = 1 << 30   // bytes; below it a note
	tooFull    = 100 << 20 // bytes; below it writes will fail soon
	maxSkew    = 5 * time.Second
	// builtAfter: a clock with an earlier year has never been set; a Raspberry Pi has no battery
	// for it.
	builtAfter = 2025
)

// Examine checks for everything that commonly prevents work. It spends no tokens.
func Examine(ctx context.Context, c DoctorConfig) []Finding {
	reached, skew, server, workers := examineServer(ctx, c)
	findings := examineClaude(ctx, c.Run)
	// If workers of the running server have claude, this machine needs none.
	if has := workersWithClaude(workers); findings[0].Status == Wrong && len(has) > 0 {
		findings[0].Status = Doubtful
		findings[0].Detail += "; tasks run on workers that have it: " + strings.Join(has, ", ")
	}
	findings = append(findings, examineFolder(c.DataDir), examineDisk(c.DataDir), examineClock(time.Now()))
	if c.Listen != "" {
		findings = append(findings, examinePort(ctx, c, reached))
	}
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
		// The advice in the error is the fix here; it should not appear twice.
		where, _, _ := strings.Cut(err.Error(), "; ")
		return []Finding{{"claude", Wrong, where, "npm install -g @anthropic-ai/claude-code, or set its path with --claude"}}
	case errors.As(err, &unusable):
		return []Finding{{"claude", Wrong, unusable.Why, unusable.Fix}}
	case err != nil:
		return []Finding{{"claude", Wrong, err.Error(), "run " + status.Path + " auth status and see what it says; reinstall it"}}
	}
	found := []Finding{{Name: "claude", Status: Fine, Detail: status.Version + " at " + status.Path}}
	login := Finding{Name: "login", Status: Fine, Detail: status.Login}
	if !status.LoggedIn {
		login.Status = Wrong
		login.Detail = "not logged in, judging by this shell's environment and user; a running worker may have its own credentials"
		login.Fix = "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN where the worker starts, or run " + status.Path + " and log in as the worker's user"
	}
	return append(found, login)
}

func examineFolder(dir string) Finding {
	f := Finding{Name: "folder", Status: Fine, Detail: dir + " is writable"}
	// Check the nearest existing parent of a missing folder, so that nothing is created.
	existing := dir
	for {
		if _, err := os.Stat(existing); err == nil || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	probe, err := os.CreateTemp(existing, ".bloom-doctor-")
	if err != nil {
		return Finding{"folder", Wrong, fmt.Sprintf("%s cannot be written: %v", dir, err),
			"change its owner (chown), or choose another with --data-dir"}
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if existing != dir {
		f.Detail = dir + " does not exist yet and can be created"
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
			return Finding{"disk", Doubtful, fmt.Sprintf("unknown free space: %v", err), ""}
		}
		detail := fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), dir)
		switch {
		case free < tooFull:
			return Finding{"disk", Wrong, detail, "free some space, or choose another folder with --data-dir"}
		case free < minFree:
			return Finding{"disk", Doubtful, detail, "free some space before it is full; a server can remove old tasks, see: bloom retention --help"}
		}
		return Finding{Name: "disk", Status: Fine, Detail: detail}
	}
}

func freeBytes(dir string) (uint64, error) {
	free, _, err := space(dir)
	return free, err
}

// space returns the space of a file system that is available to ordinary users, and its size.
func space(dir string) (free, total uint64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	if fs.Blocks == 0 { // as some file systems of FUSE have it
		return 0, 0, errors.New("the file system does not report its size")
	}
	return fs.Bavail * uint64(fs.Bsize), fs.Blocks * uint64(fs.Bsize), nil
}

// diskOf returns what health reports about a folder's file system; nil when unknown.
func diskOf(dir string) *httpapi.Disk {
	free, total, err := space(dir)
	if err != nil {
		return nil
	}
	return &httpapi.Disk{Free: free, Total: total, Low: free < minFree}
}

func examineClock(now time.Time) Finding {
	if now.Year() < builtAfter {
		return Finding{"clock", Wrong, "the clock says " + now.Format(time.DateOnly), "set it, for example with: timedatectl set-ntp true"}
	}
	return Finding{Name: "clock", Status: Fine, Detail: now.Format(time.RFC3339)}
}

func examineSkew(skew time.Duration) Finding {
	if skew > maxSkew {
		return Finding{"clock skew", Doubtful, fmt.Sprintf("this clock and the server's differ by %s", skew.Round(time.Second)),
			"nothing breaks (the store's clock decides), but times will look wrong: run NTP on both"}
	}
	return Finding{Name: "clock skew", Status: Fine, Detail: "this clock agrees with the server's"}
}

func examinePort(ctx context.Context, c DoctorConfig, reached bool) Finding {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err == nil {
		_ = l.Close()
		return Finding{Name: "port", Status: Fine, Detail: c.Listen + " is free"}
	}
	holder := PortHolder(c.Listen)
	detail := c.Listen + " is in use"
	if holder != "" {
		detail += " by " + holder
	}
	if reached && errors.Is(err, syscall.EADDRINUSE) && runtimeListens(ctx, c) {
		return Finding{Name: "port", Status: Fine, Detail: detail + ": a runtime is running"}
	}
	return Finding{"port", Wrong, detail, "stop that program, or choose another address: --listen 127.0.0.1:5001"}
}

// runtimeListens reports whether the runtime at the URL, or one behind a proxy there, is what
// listens at the address. It sends that address no key.
func runtimeListens(ctx context.Context, c DoctorConfig) bool {
	at, err := url.Parse(c.URL)
	if err != nil || at.Host == c.Listen {
		return err == nil
	}
	ctx, done := context.WithTimeout(ctx, doctorWait)
	defer done()
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		secure = c.TLS.Clone()
	}
	secure.ServerName = at.Hostname() // the certificate is not for the address
	for _, scheme := range []string{"http://", "https://"} {
		api, err := client.New(scheme+c.Listen, client.Options{Retry: client.NoRetry, TLS: secure})
		if err == nil {
			_, err = api.Health(ctx)
		}
		if !client.IsUnreachable(err) && ctx.Err() == nil {
			return true
		}
	}
	return false
}

// examineRefusal says what is missing when the server refuses the caller.
func examineRefusal(c DoctorConfig, err error) Finding {
	var api *client.APIError
	fix := "set the right key with --key-file FILE or BLOOM_API_KEY"
	switch {
	case errors.As(err, &api) && api.Err.Code == bloom.CodeNoCertificate:
		fix = "give the certificate with --client-cert FILE and --client-key FILE"
	case c.Key == "":
		fix = "the server requires a key: set it with --key-file FILE or BLOOM_API_KEY"
	}
	return Finding{"key", Wrong, err.Error(), fix}
}
