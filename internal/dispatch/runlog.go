package dispatch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// runLog is a stream's position in the archived events of its task's runs. The zero value has read
// nothing.
type runLog struct {
	listed bool
	parts  []logPart // in the order of their events
	now    *logPart  // the open one
	open   io.Closer
	lines  *json.Decoder
}

// logPart is an artifact of archived events with the numbers of the first and the last.
type logPart struct {
	artifact    bloom.Artifact
	first, last int64
}

func (l *runLog) close() {
	if l.now != nil {
		_ = l.open.Close() // it was read
		l.now = nil
	}
}

// listLog finds the parts of the task's run log.
func (st *Stream) listLog(ctx context.Context) error {
	q := bloom.ArtifactQuery{TaskID: st.taskID, Page: bloom.Page{Limit: bloom.MaxPageSize, TextBytes: 1}}
	for !st.log.listed {
		list, next, err := st.s.store.Artifacts(ctx, q)
		if err != nil {
			return err
		}
		for _, a := range list {
			if first, last, ok := a.RunLogRange(); ok {
				st.log.parts = append(st.log.parts, logPart{a, first, last})
			}
		}
		q.Cursor, st.log.listed = next, next == (bloom.Cursor{})
	}
	slices.SortFunc(st.log.parts, func(a, b logPart) int { return cmp.Compare(a.first, b.first) })
	return nil
}

// lastLogged returns the number of the last archived event.
func (st *Stream) lastLogged(ctx context.Context) (int64, error) {
	if err := st.listLog(ctx); err != nil || len(st.log.parts) == 0 {
		return 0, err
	}
	return st.log.parts[len(st.log.parts)-1].last, nil
}

// logged reads the next page of archived events, all from one part.
func (st *Stream) logged(ctx context.Context) (events []bloom.Event, err error) {
	if err := st.listLog(ctx); err != nil {
		return nil, err
	}
	l := &st.log
	if l.now == nil || l.now.last <= st.last {
		l.close()
		i := slices.IndexFunc(l.parts, func(p logPart) bool { return p.last > st.last })
		if i < 0 {
			return nil, nil
		}
		if err := st.openPart(ctx, &l.parts[i]); err != nil {
			return nil, err
		}
	}
	for size := 0; len(events) < eventPage && size < contract.MaxEventPageBytes; {
		var e bloom.Event
		if err := l.lines.Decode(&e); err != nil {
			defer l.close()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, bloom.Internal(fmt.Errorf("run log %s: %w", l.now.artifact.ID, err))
		}
		if e.Seq > st.last {
			events, size = append(events, e), size+len(e.Data)
		}
		if e.Seq >= l.now.last {
			l.close()
			break
		}
	}
	return events, nil
}

func (st *Stream) openPart(ctx context.Context, p *logPart) error {
	content, err := st.s.Content.Open(ctx, p.artifact)
	if err != nil {
		return err
	}
	zip, err := gzip.NewReader(bufio.NewReader(content))
	if err != nil {
		return bloom.Internal(errors.Join(fmt.Errorf("run log %s: %w", p.artifact.ID, err), content.Close()))
	}
	st.log.now, st.log.open, st.log.lines = p, content, json.NewDecoder(zip)
	return nil
}
