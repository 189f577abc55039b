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
)

// past is a stream's position in transcripts. The zero value has read nothing.
type past struct {
	known bool
	runs  []transcript // in the order of their events
	now   *transcript  // the open one
	open  io.Closer
	lines *json.Decoder
}

// transcript is a transcript artifact with the numbers of its first and last event.
type transcript struct {
	artifact    bloom.Artifact
	first, last int64
}

func (p *past) close() {
	if p.now != nil {
		_ = p.open.Close() // it was read
		p.now = nil
	}
}

// list finds the task's transcripts.
func (st *Stream) list(ctx context.Context) error {
	if st.past.known {
		return nil
	}
	q := bloom.ArtifactQuery{TaskID: st.taskID, Page: bloom.Page{Limit: bloom.MaxPageSize, TextBytes: 1}}
	for {
		list, next, err := st.s.store.Artifacts(ctx, q)
		if err != nil {
			return err
		}
		for _, a := range list {
			if first, last, ok := a.Transcribes(); ok {
				st.past.runs = append(st.past.runs, transcript{a, first, last})
			}
		}
		if next == (bloom.Cursor{}) {
			break
		}
		q.Cursor = next
	}
	slices.SortFunc(st.past.runs, func(a, b transcript) int { return cmp.Compare(a.first, b.first) })
	st.past.known = true
	return nil
}

// lastTranscribed returns the number of the last event in a transcript.
func (st *Stream) lastTranscribed(ctx context.Context) (int64, error) {
	if err := st.list(ctx); err != nil || len(st.past.runs) == 0 {
		return 0, err
	}
	return st.past.runs[len(st.past.runs)-1].last, nil
}

// transcribed reads the next page of events from transcripts.
func (st *Stream) transcribed(ctx context.Context) (events []bloom.Event, err error) {
	if err := st.list(ctx); err != nil {
		return nil, err
	}
	p := &st.past
	for size := 0; len(events) < eventPage && size < bloom.MaxEventPageBytes; {
		if p.now == nil || p.now.last <= st.last {
			p.close()
			i := slices.IndexFunc(p.runs, func(t transcript) bool { return t.last > st.last })
			if i < 0 || len(events) > 0 {
				return events, nil
			}
			if err := st.openTranscript(ctx, &p.runs[i]); err != nil {
				return nil, err
			}
		}
		var e bloom.Event
		if err := p.lines.Decode(&e); err != nil {
			defer p.close()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, bloom.Internal(fmt.Errorf("transcript %s: %w", p.now.artifact.ID, err))
		}
		if e.Seq > st.last {
			events, size = append(events, e), size+len(e.Data)
		}
		if e.Seq >= p.now.last {
			p.close()
			return events, nil
		}
	}
	return events, nil
}

func (st *Stream) openTranscript(ctx context.Context, t *transcript) error {
	content, err := st.s.Content.Open(ctx, t.artifact)
	if err != nil {
		return err
	}
	zip, err := gzip.NewReader(bufio.NewReader(content))
	if err != nil {
		return bloom.Internal(errors.Join(fmt.Errorf("transcript %s: %w", t.artifact.ID, err), content.Close()))
	}
	st.past.now, st.past.open, st.past.lines = t, content, json.NewDecoder(zip)
	return nil
}
