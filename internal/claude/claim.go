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
)

// awaitClaim starts a claude that gets its working folder later, with a claim on its standard
// input. The option is not documented; where it does not work, contexts start without a spare
// process.
const awaitClaim = "--await-claim"

// claimTimeout is how long claude may take to answer a claim.
const claimTimeout = 5 * time.Second

// spareWorkdir returns the folder in which the spare process waits.
func (c Config) spareWorkdir() string {
	if c.WorkdirPerContext {
		return filepath.Join(c.Workdir, "spare")
	}
	return c.Workdir
}

// startUnclaimed starts a spare process for contexts with folders of their own.
func startUnclaimed(c Config, path string, args []string, workdir, key string) (*warmProcess, error) {
	return startProcess(c, path, append(slices.Clone(args), awaitClaim), workdir, key)
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
		s.current.key = s.key
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
		case l.answer <- fmt.Errorf("claude refused the folder: %s", clip(m.Response.Error, 512)):
		default:
		}
	}
}
