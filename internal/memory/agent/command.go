package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/memory"
)

var errTooLong = errors.New("it took longer than a push may (LOCK_TTL_SECONDS), and was given up")

// maxDetail bounds what membridge takes as a job's detail, in bytes.
const maxDetail = 1000

// Carry carries out membridge's command to push or pull, one at a time, as
// `bloom memory push` and `pull` would, and returns what they would have printed.
func (a *Agent) Carry(ctx context.Context, c mbclient.Command) mbclient.Report {
	m := a.cfg.Memory
	if c.CanonicalID != m.ID() && c.Project != m.Project {
		return refused(fmt.Sprintf("%s has the memory of %q, not of %q: start one there with CLAUDE_PROJECT_ID=%s. Nothing was pushed or pulled",
			m.Node, m.Project, c.Project, c.Project))
	}
	release, err := a.take(ctx)
	if err != nil {
		return stopped()
	}
	defer release()
	if err := a.heartbeat(ctx); err != nil { // a selection that was made a moment ago counts
		a.log.Debug("membridge did not say who leads before a command", slog.Any("error", err))
	}
	limited, cancel := context.WithTimeout(ctx, m.LockTTL)
	defer cancel()
	said := &steps{}
	var outcome string
	switch c.Type {
	case "sync_push":
		outcome, err = said.push(limited, m)
	case "sync_pull":
		outcome, err = said.pull(limited, m)
	default:
		return refused(fmt.Sprintf("this version knows no command %q. Nothing was pushed or pulled", c.Type))
	}
	if err == nil {
		_ = a.meter.Measure(ctx) // the next heartbeat tells; what fails is logged there
		return said.report(announce.Completed, outcome, 0)
	}
	switch {
	case ctx.Err() != nil:
		return stopped()
	case errors.Is(err, context.DeadlineExceeded):
		err = errTooLong
	}
	said.add("bloom: " + err.Error())
	return said.report(announce.Failed, err.Error(), memory.ExitCode(err))
}

func refused(why string) mbclient.Report {
	return mbclient.Report{Status: announce.Failed, Detail: why}
}

func stopped() mbclient.Report {
	return refused("The agent was stopped before it was done. Nothing is broken; push or pull again")
}

// steps are the lines that a push or pull says on its way.
type steps struct {
	mu    sync.Mutex
	lines []string
}

func (s *steps) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *steps) push(ctx context.Context, m *memory.Project) (string, error) {
	out, err := m.Telling(s.add).Push(ctx)
	switch {
	case err != nil:
		return "", err
	case out.Unchanged:
		return fmt.Sprintf("unchanged since %s pushed it", out.SourceHost), nil
	}
	return fmt.Sprintf("pushed %d bytes, %d observations, SHA-256 %.12s", out.Size, out.Observations, out.SHA256), nil
}

func (s *steps) pull(ctx context.Context, m *memory.Project) (string, error) {
	out, err := m.Telling(s.add).Pull(ctx)
	switch {
	case err != nil:
		return "", err
	case out.Unchanged:
		return "up to date", nil
	case out.Backup != "":
		s.add("what was here is kept in " + out.Backup)
	}
	if out.LocalAhead {
		s.add("it had more observations than what came: look there before you discard it")
	}
	return fmt.Sprintf("pulled %d bytes, %d observations, pushed by %s", out.Size, out.Observations, out.SourceHost), nil
}

func (s *steps) report(status, detail string, code int) mbclient.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := mbclient.Report{Status: status, Detail: strings.ToValidUTF8(detail[:min(len(detail), maxDetail)], ""), ReturnCode: &code}
	r.Stderr = strings.Join(s.lines, "\n")
	if status == announce.Completed {
		r.Stdout = detail
	}
	return r
}
