package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom/internal/retry"
)

// streams follows the first client's task with many streams. It measures their memory,
// and the processor time to send them events.
func (s *costSite) streams(ctx context.Context) error {
	if s.Streams == 0 {
		return nil
	}
	before, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	for range s.Streams {
		w, err := dial(ctx, s.api.BaseURL(), s.APIKey)
		if err != nil {
			return err
		}
		ended, err := w.follow(s.conns[0].task, s.conns[0].seq)
		if err != nil {
			w.close()
			return err
		}
		defer func() { w.close(); <-ended }()
	}
	if err := retry.Sleep(ctx, time.Second); err != nil { // until the garbage of connecting is collected
		return err
	}
	after, err := usesOf(s.PID)
	if err != nil {
		return err
	}
	if len(after) > 0 {
		s.report.StreamKiB = (after[0].MemoryMB - before[0].MemoryMB) * 1024 / float64(s.Streams)
	}
	return s.measure(ctx, "send a request's events to one stream", 1, int64(s.Streams), s.sendEvents)
}

// follow reads a task's stream after an event until the connection is closed. Then it
// closes ended.
func (w *wire) follow(task string, after int64) (ended <-chan struct{}, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(wireTimeout)); err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(w.conn, "GET %s/llm-tasks/%s/events%sLast-Event-ID: %d\r\n\r\n", w.path, task, w.header, after); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(w.in, nil) //nolint:bodyclose // its reader closes it
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("a stream: %s", resp.Status), resp.Body.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}()
	return done, w.conn.SetDeadline(time.Time{})
}
