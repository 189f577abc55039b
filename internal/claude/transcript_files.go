package claude

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// projectsDir returns the folder in which claude stores sessions.
func (c Config) projectsDir() string {
	env := c.environment()
	if dir := lookup(env, "CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "projects")
	}
	return filepath.Join(lookup(env, "HOME"), ".claude", "projects")
}

// projectFolder returns the name of claude's folder for the sessions of a working folder.
func projectFolder(workdir string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, workdir)
}

var sessionID = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// validSession reports whether a session id is one of claude's, a UUID. A task can forge one: another
// one might be an option, or the beginning of many names.
func validSession(id string) bool { return sessionID.MatchString(id) }

// sessionFile returns claude's file of a session.
func (c Config) sessionFile(workdir, sessionID string) string {
	return filepath.Join(c.projectsDir(), projectFolder(workdir), sessionID+".jsonl")
}

// truncateTo truncates the session's file to an earlier version. It returns false if the
// file does not exist, or does not begin with that version.
func (t *taskRun) truncateTo(m transcriptVersion) bool {
	if !validSession(m.SessionID) {
		return false
	}
	f, info, err := workspace.OpenRegularPath(t.config.sessionFile(t.workdir, m.SessionID), os.O_RDWR)
	if err != nil {
		return false
	}
	defer f.Close()
	if info.Size() < m.Size || m.Size > bloom.MaxTranscript {
		return false
	}
	begin := sha256.New()
	if _, err := io.CopyN(begin, f, m.Size); err != nil || hexSum(begin) != m.SHA256 {
		return false
	}
	if info.Size() == m.Size || t.runner.pool.has(t.task.ContextID) {
		return true // a warm process has served only completed turns
	}
	return f.Truncate(m.Size) == nil
}

var errTranscriptSize = fmt.Errorf("the transcript is larger than the limit of %d bytes", int64(bloom.MaxTranscript))

// digest returns a transcript's size, the SHA-256 of its first n bytes, and that of the
// whole.
func digest(path string, n int64) (size int64, first, all string, err error) {
	f, _, err := workspace.OpenRegularPath(path, os.O_RDONLY)
	if err != nil {
		return 0, "", "", err
	}
	defer f.Close()
	content, whole := io.LimitReader(f, bloom.MaxTranscript+1), sha256.New()
	begin, err := io.CopyN(whole, content, n)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, "", "", err
	}
	first = hexSum(whole)
	rest, err := io.Copy(whole, content)
	if size = begin + rest; err == nil && size > bloom.MaxTranscript {
		err = errTranscriptSize
	}
	return size, first, hexSum(whole), err
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// flushTimeout is how long a warm process may take to write its answer to the file.
const flushTimeout = 2 * time.Second

// awaitLine waits until a session's file has the turn's last message. A warm process writes
// it a moment after it has printed it.
func awaitLine(ctx context.Context, path, messageID string) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for looked := int64(-1); messageID != ""; {
		if info, err := os.Stat(path); err == nil && info.Size() != looked {
			if looked = info.Size(); endsWith(path, messageID) {
				return
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// tailSize is how much of the end of a session's file endsWith reads.
const tailSize = 1 << 20

// endsWith reports whether the last lines of a file are complete and contain the message's
// id.
func endsWith(path, messageID string) bool {
	f, info, err := workspace.OpenRegularPath(path, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	if info.Size() == 0 {
		return false
	}
	if _, err := f.Seek(max(0, info.Size()-tailSize), io.SeekStart); err != nil {
		return false
	}
	tail, err := io.ReadAll(io.LimitReader(f, 2*tailSize))
	return err == nil && bytes.HasSuffix(tail, []byte("\n")) && bytes.Contains(tail, []byte(messageID))
}
