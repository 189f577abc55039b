package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/storable"
)

type streamInput struct {
	ID     string `path:"id"`
	Last   string `header:"Last-Event-ID" doc:"Number of the last event received; the stream continues after it"`
	After  string `query:"after" doc:"The same as a query parameter"`
	Follow bool   `query:"follow" default:"true" doc:"false ends the response after the events that exist"`
}

func (s *Server) streamRoutes() {
	handle(s, route{method: http.MethodGet, path: tasksPath + "/{id}/events", id: "task-events", summary: "A task's stream: text/event-stream, or application/x-ndjson by Accept", tag: "tasks"}, s.taskEvents)
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/events", id: "append-events", summary: "Append a worker's events, one JSON object per line", tag: "leases", lines: true}, s.appendEvents)
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
			return nil, bloom.Invalid("The event number is invalid", bloom.FieldError{Field: "Last-Event-ID", Message: "must be the number of an event"})
		}
		after = n
	}
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	stream, finished, err := s.svc.Stream(ctx, in.ID, after)
	if err != nil {
		return nil, err
	}
	c.finally(stream.Close)
	lines := accepts(c.accept, ndjson)
	return lasting(c, func() {
		if finished && last != "" && !lines {
			c.w.WriteHeader(http.StatusNoContent) // makes an EventSource stop reconnecting
			return
		}
		out := s.openStream(c.w, lines)
		s.copyStream(ctx, c, stream, out, in.Follow)
	})
}

func (s *Server) copyStream(ctx context.Context, c *call, stream *dispatch.Stream, out *streamWriter, follow bool) {
	stream.Admit = func(ctx context.Context) error { return s.reserve(ctx, c, dispatch.StreamPageBytes) }
	idle := heartbeatEvery
	if !follow {
		idle = 0
	}
	for {
		events, done, err := stream.Next(ctx, idle)
		c.answered(bytesOf(events))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.WarnContext(ctx, "reading a task's stream failed", "request_id", c.id, "error", err)
			panic(http.ErrAbortHandler) // the reader reconnects with its last id
		case done, len(events) == 0 && !follow:
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
		c.answered(0)
	}
}

func bytesOf(events []bloom.Event) (n int) {
	for i := range events {
		n += len(events[i].Data)
	}
	return n
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
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
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

// frame writes one server-sent event. data must not contain line breaks.
func (o *streamWriter) frame(id, name string, data []byte) error {
	if id != "" {
		o.w.WriteString("id: " + id + "\n")
	}
	if name != "" {
		o.w.WriteString("event: " + name + "\n")
	}
	o.w.WriteString("data: ")
	o.w.Write(data)
	_, err := o.w.WriteString("\n\n") // returns the first error of all writes
	return err
}

// alive writes a keep-alive, so that proxies do not close an idle stream.
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
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	return lasting(c, func() {
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
			select { // collect further changes meanwhile
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
		if err := out.frame("", c.Kind, storable.MustJSON(c)); err != nil {
			return err
		}
	}
	if missed {
		return out.frame("", "resync", []byte("{}"))
	}
	return nil
}

const (
	ndjson         = "application/x-ndjson"
	eventStream    = "text/event-stream"
	heartbeatEvery = 15 * time.Second // of an idle stream
	// changesEvery is the shortest time between two batches of changes. A busy server has
	// thousands of changes per second.
	changesEvery = 200 * time.Millisecond
)
