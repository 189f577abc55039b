package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// FollowOptions configures how a stream is followed.
type FollowOptions struct {
	// After is the number of the last event already seen; 0 starts with the first.
	After int64
	// OnReconnect, when not nil, is called when the stream broke and will be reopened after wait.
	OnReconnect func(err error, wait time.Duration)
}

// FollowEvents follows a task's stream to its terminal event and yields each event once and in
// order. A broken stream is reopened where it broke, until ctx ends. Only the first connection is
// limited by Retry, so that a wrong URL fails quickly. The iterator ends with an error that
// retrying cannot fix.
func (c *Client) FollowEvents(ctx context.Context, taskID string, o FollowOptions) iter.Seq2[bloom.Event, error] {
	return func(yield func(bloom.Event, error) bool) {
		f := follower{client: c, path: "/llm-tasks/" + seg(taskID) + "/events", after: o.After}
		err := f.run(ctx, o.OnReconnect, func(m message) (bool, error) {
			e, err := m.event()
			if err != nil || e.Seq <= f.after {
				return err == nil, err
			}
			f.after, f.ended = e.Seq, terminal(e.Type)
			return yield(e, nil), nil
		})
		if err != nil {
			yield(bloom.Event{}, err)
		}
	}
}

// Changes follows all changes on the server until ctx ends. Changes are hints; some are missed
// while the stream is interrupted.
func (c *Client) Changes(ctx context.Context, o FollowOptions) iter.Seq2[bloom.Change, error] {
	return func(yield func(bloom.Change, error) bool) {
		f := follower{client: c, path: "/events"}
		err := f.run(ctx, o.OnReconnect, func(m message) (bool, error) {
			var change bloom.Change
			if len(m.data) == 0 || json.Unmarshal(m.data, &change) != nil {
				return true, nil // the initial message, or an unknown kind
			}
			return yield(change, nil), nil
		})
		if err != nil {
			yield(bloom.Change{}, err)
		}
	}
}

// terminal reports whether a task's stream may end after an event of this type. A requeue may
// follow, so the task has ended only when the stream ends there.
func terminal(typ string) bool {
	switch typ {
	case bloom.EventCompleted, bloom.EventFailed, bloom.EventDead, bloom.EventCancelled:
		return true
	}
	return false
}

// follower keeps one stream open across interruptions.
type follower struct {
	client *Client
	path   string
	after  int64 // the last event yielded
	ended  bool  // it was terminal
}

var (
	// errStopped means that the consumer stopped iterating.
	errStopped = errors.New("stopped by the consumer")
	// errEnded means that the stream has no further events. It is not io.EOF, which a connection
	// that was closed without a response returns.
	errEnded = errors.New("the stream has ended")
)

func (f *follower) run(ctx context.Context, onReconnect func(error, time.Duration), take func(message) (bool, error)) error {
	opened := f.client // with its retries, until the first connection is established
	for failures := 0; ; failures++ {
		before := f.after
		connected, err := f.follow(ctx, opened, take)
		switch {
		case errors.Is(err, errStopped), err == nil && f.ended, errors.Is(err, errEnded):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (!Temporary(err) || (!connected && opened == f.client)):
			return err
		}
		opened = f.client.WithRetry(NoRetry)
		if f.after > before {
			failures = 0
		}
		wait := f.client.retry.Wait(failures, err)
		if onReconnect != nil {
			onReconnect(err, wait)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// follow reads one connection. It returns errEnded when the stream has ended for good (204), and nil
// when the connection ended.
func (f *follower) follow(ctx context.Context, c *Client, take func(message) (bool, error)) (connected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call := &call{method: http.MethodGet, path: f.path, accept: typeEvents, safety: safe}
	if f.after > 0 {
		call.header = map[string]string{"Last-Event-ID": strconv.FormatInt(f.after, 10)}
	}
	resp, err := c.stream(ctx, call)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return true, errEnded
	}
	// A connection that died silently would block the read forever.
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	lines := lineReader{r: bufio.NewReaderSize(resp.Body, 32<<10)}
	next := lines.sse
	if mediaType(resp) == typeLines {
		next = lines.ndjson
	}
	for {
		m, err := next(func() { silence.Reset(streamSilence) })
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return true, &UnreachableError{URL: c.base, Sent: true, Err: err}
		}
		if more, err := take(m); err != nil || !more {
			if err == nil {
				err = errStopped
			}
			return true, err
		}
	}
}
