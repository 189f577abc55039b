package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// awaitClaim starts a claude that gets its working folder later, with a claim on its standard
// input. The option is not documented; where it does not work, contexts start without a spare
// process.
const awaitClaim = "--await-claim"

// claimTimeout is how long claude may take to answer a claim. It may have just been started, on a
// busy machine. Only one task waits that long: then no spare process is started any more.
const claimTimeout = 30 * time.Second

// spareWorkdir returns the folder of the spare process, or the one that contains it.
func (c Config) spareWorkdir() string {
	if c.WorkdirPerContext {
		return filepath.Join(c.Workdir, "spare")
	}
	return c.Workdir
}

// startUnclaimed starts a spare process for contexts with folders of their own. It waits in a new
// folder, in which no task can have left anything that claude reads at its start.
func startUnclaimed(c Config, path string, args []string, key string) (*warmProcess, error) {
	dir, err := newSpareFolder(c.spareWorkdir())
	if err != nil {
		return nil, err
	}
	return startProcess(c, path, append(slices.Clone(args), awaitClaim), dir, key)
}

// newSpareFolder makes an empty folder in dir, and removes the empty ones of earlier processes.
func newSpareFolder(dir string) (string, error) {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() { // a task has put it there
		if err := os.Remove(dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range someNames(dir) {
		_ = os.Remove(filepath.Join(dir, name)) // it stays if a task has written to it
	}
	return os.MkdirTemp(dir, "")
}

// isEmpty reports whether a folder is empty.
func isEmpty(dir string) bool { return len(someNames(dir)) == 0 }

// someNames returns names of a folder's entries, not more than a few.
func someNames(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(16)
	return names
}

// spareKey returns the key of a spare process that the session can use, given its own key;
// empty if there can be none. A claimed process does not read everything in the folder that
// claude reads at its start.
func (s *coldSession) spareKey(ctx context.Context, key string) string {
	if !s.config.WorkdirPerContext {
		return key
	}
	for _, name := range []string{".claude", ".mcp.json"} {
		if _, err := os.Lstat(filepath.Join(s.workdir, name)); err == nil {
			return ""
		}
	}
	spare := &coldSession{config: s.config, path: s.path, args: s.args, tools: s.tools, workdir: s.config.spareWorkdir()}
	spareKey, err := spare.startKey(ctx)
	if err != nil {
		return ""
	}
	return spareKey
}

// claimSpare gives the spare process the session's folder, or stops it.
func (s *warmSession) claimSpare(ctx context.Context) {
	err := s.current.claim(ctx, s.workdir)
	if err == nil {
		s.current.key, s.current.folder, s.current.inode = s.key, s.workdir, inode(s.workdir)
		return
	}
	if ctx.Err() == nil {
		s.config.Log.Warn("the spare claude process could not take a context's folder; no more are started with these settings", "error", err)
		s.pool.refuse(s.spareKey)
	}
	s.current.end()
	s.current = nil
}

// claim gives the process its working folder.
func (l *warmProcess) claim(ctx context.Context, workdir string) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	_ = l.stdin.SetWriteDeadline(time.Now().Add(claimTimeout))
	l.write(map[string]any{"type": "control_request", "request_id": "claim", "request": map[string]any{"subtype": "claim_session", "cwd": workdir, "include_initialize": false}})
	_ = l.stdin.SetWriteDeadline(time.Time{})
	select {
	case err := <-l.answer:
		return err
	case <-l.process.Done():
		return errors.New("it ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unclaimedLine handles a line of a process without a folder: claude's answer to the claim. It
// also prints notices about its interface. It requires l.mu.
func (l *warmProcess) unclaimedLine(line []byte) {
	var m struct {
		Type     string `json:"type"`
		Subtype  string `json:"subtype"`
		Response struct {
			Subtype  string `json:"subtype"`
			Error    string `json:"error"`
			Response struct {
				Status string `json:"status"`
			} `json:"response"`
		} `json:"response"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err == nil && m.Type == "system":
	case err != nil || m.Type != "control_response":
		l.rejectOutOfTurn(message{Type: m.Type, Subtype: m.Subtype})
	case m.Response.Subtype == "success" && m.Response.Response.Status == "ok":
		l.unclaimed.Store(false)
		l.answer <- nil
	default:
		select {
		case l.answer <- fmt.Errorf("claude refused the folder: %s", storable.Cut(m.Response.Error, 512)):
		default:
		}
	}
}
