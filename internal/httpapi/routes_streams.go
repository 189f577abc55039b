package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/jsonnum"
)

const (
	ndjson      = "application/x-ndjson"
	eventStream = "text/event-stream"
	// heartbeatEvery is how often an idle stream shows that it is alive.
	heartbeatEvery = 15 * time.Second
	// changesEvery is how often the stream of all changes is sent at most: a
	// busy server changes thousands of things a second, and nobody reads that.
	changesEvery = 200 * time.Millisecond
	// eventBatch is how many events of a worker go into one transaction.
	eventBatch = 256
)

type streamInput struct {
	ID    string `path:"id"`
	Last  string `header:"Last-Event-ID" doc:"Number of the last event received; the stream goes on after it"`
	After string `query:"after" doc:"The same, where a header cannot be set"`
}

type appendInput struct {
	ID      string `path:"id"`
	LeaseID string `query:"lease_id" doc:"The lease under which the events happened"`
}

// appended is the answer to appended events.
type appended struct {
	LastSeq  int64 `json:"last_seq" doc:"Number of the task's last event"`
	Accepted int   `json:"accepted" doc:"Events read from the request"`
}

func (s *Server) streamRoutes() {
	handle(s, route{method: http.MethodGet, path: tasksPath + "/{id}/events", id: "task-events", summary: "A task's stream: text/event-stream, or application/x-ndjson by Accept", tag: "tasks"}, s.taskEvents)
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/events", id: "append-events", summary: "Append a worker's events, one JSON object a line", tag: "leases"}, s.appendEvents)
	handle(s, route{method: http.MethodGet, path: runtimePath + "/events", id: "changes", summary: "Every change on the server, as text/event-stream", tag: "system"}, s.changes)
}

func (s *Server) taskEvents(ctx context.Context, c *call, in *streamInput) (*huma.StreamResponse, error) {
	last := in.Last
	if last == "" {
		last = in.After
	}
	var after int64
	if last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return nil, bloom.Invalid("The number to go on after is wrong", bloom.FieldError{Field: "Last-Event-ID", Message: "must be the number of an event"})
		}
		after = n
	}
	stream, finished, err := s.svc.Stream(ctx, in.ID, after)
	if err != nil {
		return nil, err
	}
	lines := accepts(c.accept, ndjson)
	answer, err := s.streaming(c, func() {
		defer stream.Close()
		if finished && last != "" && !lines {
			c.w.WriteHeader(http.StatusNoContent) // an EventSource stops reconnecting then
			return
		}
		out := s.openStream(c.w, lines)
		s.copyStream(ctx, c, stream, out)
	})
	if err != nil {
		stream.Close()
	}
	return answer, err
}

func (s *Server) copyStream(ctx context.Context, c *call, stream *dispatch.Stream, out *streamWriter) {
	for {
		events, done, err := stream.Next(ctx, heartbeatEvery)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.WarnContext(ctx, "a task's stream broke off", "request_id", c.id, "error", err)
			panic(http.ErrAbortHandler) // the reader comes back with its last id
		case done:
			return
		case len(events) == 0:
			err = out.alive()
		}
		for i := 0; err == nil && i < len(events); i++ {
			err = out.event(&events[i])
		}
		if err = errors.Join(err, out.flush()); err != nil {
			return
		}
	}
}

// streamWriter writes events as server-sent events or as lines.
type streamWriter struct {
	w     *bufio.Writer
	to    *pacedWriter
	lines bool
}

func (s *Server) openStream(w http.ResponseWriter, lines bool) *streamWriter {
	s.allowUntil(w, 0)
	media := eventStream
	if lines {
		media = ndjson
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	to := s.paced(w)
	out := &streamWriter{w: bufio.NewWriter(to), to: to, lines: lines}
	_ = out.flush()
	return out
}

func (o *streamWriter) event(e *bloom.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if o.lines {
		_, err = o.w.Write(append(raw, '\n'))
		return err
	}
	return o.frame(strconv.FormatInt(e.Seq, 10), "", raw)
}

// frame writes one server-sent event. data has no line breaks: it is compact
// JSON.
func (o *streamWriter) frame(id, name string, data []byte) error {
	if id != "" {
		o.w.WriteString("id: " + id + "\n")
	}
	if name != "" {
		o.w.WriteString("event: " + name + "\n")
	}
	o.w.WriteString("data: ")
	o.w.Write(data)
	_, err := o.w.WriteString("\n\n") // a bufio.Writer keeps its first error
	return err
}

// alive keeps proxies from closing an idle stream.
func (o *streamWriter) alive() error {
	line := ": alive\n\n"
	if o.lines {
		line = "\n"
	}
	_, err := o.w.WriteString(line)
	return err
}

func (o *streamWriter) flush() error {
	if err := o.w.Flush(); err != nil {
		return err
	}
	return o.to.Flush()
}

func (s *Server) changes(ctx context.Context, c *call, _ *none) (*huma.StreamResponse, error) {
	return s.streaming(c, func() {
		feed, stop := s.svc.Changes()
		defer stop()
		out := s.openStream(c.w, false)
		s.copyChanges(ctx, feed, out)
	})
}

func (s *Server) copyChanges(ctx context.Context, feed *dispatch.ChangeFeed, out *streamWriter) {
	idle := time.NewTicker(heartbeatEvery)
	defer idle.Stop()
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-s.svc.Closing():
			return
		case <-idle.C:
			err = out.alive()
		case <-feed.Signal():
			select { // collects what comes in the meantime
			case <-pace.C:
			case <-ctx.Done():
				return
			case <-s.svc.Closing():
				return
			}
			pace.Reset(changesEvery)
			err = writeChanges(out, feed)
		}
		if err = errors.Join(err, out.flush()); err != nil {
			return
		}
	}
}

func writeChanges(out *streamWriter, feed *dispatch.ChangeFeed) error {
	changes, missed := feed.Take()
	for _, c := range changes {
		if err := out.frame("", c.Kind, bloom.MustJSON(c)); err != nil {
			return err
		}
	}
	if missed {
		return out.frame("", "resync", []byte("{}"))
	}
	return nil
}

// appendEvents reads a worker's lines as they come and stores them in batches.
func (s *Server) appendEvents(ctx context.Context, c *call, in *appendInput) (*reply[appended], error) {
	if in.LeaseID == "" {
		return nil, bloom.Invalid("Events need the lease they happened under", bloom.FieldError{Field: "lease_id", Message: "must not be empty"})
	}
	if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
		return nil, err
	}
	lines := eventLines{r: bufio.NewReaderSize(http.MaxBytesReader(c.w, c.r.Body, limitEvents), smallBody)}
	lines.admit = func() error {
		if err := s.svc.CheckActive(ctx, in.ID, in.LeaseID); err != nil {
			return err
		}
		return s.bodies.admit(ctx, c, limitEvents)
	}
	var res appended
	var batch []bloom.WorkerEvent
	size := 0
	for number := int64(1); ; number++ {
		line, ended, err := lines.next()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, err := parseEvent(line, number)
			if err != nil {
				return nil, err
			}
			batch, size = append(batch, e), size+len(line)
		}
		if len(batch) >= eventBatch || size >= limitBody || ended {
			last, err := s.svc.AppendEvents(ctx, in.ID, in.LeaseID, batch)
			if err != nil {
				return nil, err
			}
			res.LastSeq, res.Accepted = last, res.Accepted+len(batch)
			if ended {
				return &reply[appended]{http.StatusOK, res}, nil
			}
			batch, size = nil, 0
		}
	}
}

// eventLines reads a request's lines. The first that is longer than an event may be
// needs the request to be admitted: it is stored cut, but has to be read whole.
type eventLines struct {
	r     *bufio.Reader
	admit func() error // nil once the request is admitted
}

// next is the next line, without its end; ended tells that it is the last one.
func (l *eventLines) next() (line []byte, ended bool, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, false, nil
		case errors.Is(err, io.EOF):
			return line, true, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, bodyError(err)
		}
		if len(line) > bloom.MaxEventData && l.admit != nil {
			if err := l.admit(); err != nil {
				return nil, false, err
			}
			l.admit = nil
		}
	}
}

func parseEvent(line []byte, number int64) (bloom.WorkerEvent, error) {
	var e bloom.WorkerEvent
	where := "line " + itoa(number)
	if jsonnum.TooDeep(line) {
		return e, bloom.Invalid("An event nests deeper than 64 levels", bloom.FieldError{Field: where, Message: "must nest at most 64 levels"})
	}
	if err := unmarshal(line, &e); err != nil {
		return e, bloom.Invalid("An event is not a JSON object of the right form", bloom.FieldError{Field: where, Message: `must be {"seq","type","at","data"}`})
	}
	if invalid := (*bloom.Error)(nil); errors.As(input.Check(e), &invalid) {
		for i := range invalid.Details {
			invalid.Details[i].Field = where + ": " + invalid.Details[i].Field
		}
		return e, input.Wrong(invalid.Details...)
	}
	return e, nil
}
