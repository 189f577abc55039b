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

var errTooLong = errors.New("it was cancelled because it took longer than a push may take (LOCK_TTL_SECONDS)")

// Execute executes membridge's command to push or pull, one at a time, like `bloom memory
// push` and `pull`, and returns what they would have printed.
func (a *Agent) Execute(ctx context.Context, c mbclient.Command) mbclient.Report {
	m := a.cfg.Memory
	if c.CanonicalID != m.ID() && c.Project != m.Project {
		return failedReport(fmt.Sprintf("%s has the memory of %q, not of %q: start an agent there with CLAUDE_PROJECT_ID=%s. Nothing was pushed or pulled",
			m.Node, m.Project, c.Project, c.Project))
	}
	release, err := a.acquire(ctx)
	if err != nil {
		return stoppedReport()
	}
	defer release()
	if err := a.heartbeat(ctx); err != nil { // the heartbeat fetches a selection that was just made
		a.log.Debug("the heartbeat before a command failed", slog.Any("error", err))
	}
	limited, cancel := context.WithTimeout(ctx, m.LockTTL)
	defer cancel()
	output := &steps{}
	var outcome string
	switch c.Type {
	case "sync_push":
		outcome, err = output.push(limited, m)
	case "sync_pull":
		outcome, err = output.pull(limited, m)
	default:
		return failedReport(fmt.Sprintf("this version does not support the command %q. Nothing was pushed or pulled", c.Type))
	}
	if err == nil {
		_ = a.meter.Measure(ctx) // for the next heartbeat; measure logs failures
		return output.report(announce.Completed, outcome, 0)
	}
	switch {
	case ctx.Err() != nil:
		return stoppedReport()
	case errors.Is(err, context.DeadlineExceeded):
		err = errTooLong
	}
	output.add("bloom: " + err.Error())
	return output.report(announce.Failed, err.Error(), memory.ExitCode(err))
}

func failedReport(why string) mbclient.Report {
	return mbclient.Report{Status: announce.Failed, Detail: why}
}

func stoppedReport() mbclient.Report {
	return failedReport("The agent was stopped before it was done. This did no harm; push or pull again")
}

// steps collects the progress lines of a push or pull.
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
	out, err := m.WithProgress(s.add).Push(ctx)
	switch {
	case err != nil:
		return "", err
	case out.Unchanged:
		return fmt.Sprintf("unchanged since %s pushed it", out.SourceHost), nil
	}
	return fmt.Sprintf("pushed %d bytes, %d observations, SHA-256 %.12s", out.Size, out.Observations, out.SHA256), nil
}

func (s *steps) pull(ctx context.Context, m *memory.Project) (string, error) {
	out, err := m.WithProgress(s.add).Pull(ctx)
	switch {
	case err != nil:
		return "", err
	case out.Unchanged:
		return "up to date", nil
	case out.Backup != "":
		s.add("the previous database is kept in " + out.Backup)
	}
	if out.LocalAhead {
		s.add("it had more observations than the new one: look at it before you delete it")
	}
	return fmt.Sprintf("pulled %d bytes, %d observations, pushed by %s", out.Size, out.Observations, out.SourceHost), nil
}

func (s *steps) report(status, detail string, code int) mbclient.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := mbclient.Report{Status: status, Detail: detail, ReturnCode: &code}
	r.Stderr = strings.Join(s.lines, "\n")
	if status == announce.Completed {
		r.Stdout = detail
	}
	return r
}
