package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// streamSilence is how long a stream may say nothing before it is taken for
// dead and opened anew. The server sends a sign of life more often than that.
const streamSilence = 60 * time.Second

// FollowOptions says how a stream is followed.
type FollowOptions struct {
	// After is the number of the last event already seen; 0 begins at the first.
	After int64
	// OnReconnect is told when the stream broke and will be opened again after
	// wait. May be nil.
	OnReconnect func(err error, wait time.Duration)
}

// FollowEvents follows a task's stream from the given place to its terminal
// event, each event once and in order. A stream that breaks is opened again
// where it broke, for as long as ctx allows; only the first connection is
// bounded by Retry, so that a wrong address is told at once. The iterator ends
// with an error for what trying again cannot mend.
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

// Changes follows what changes on the whole server, for as long as ctx allows.
// Changes are hints; some are missed while the stream is down.
func (c *Client) Changes(ctx context.Context, o FollowOptions) iter.Seq2[bloom.Change, error] {
	return func(yield func(bloom.Change, error) bool) {
		f := follower{client: c, path: "/events"}
		err := f.run(ctx, o.OnReconnect, func(m message) (bool, error) {
			var change bloom.Change
			if len(m.data) == 0 || json.Unmarshal(m.data, &change) != nil {
				return true, nil // a greeting or a kind we do not know
			}
			return yield(change, nil), nil
		})
		if err != nil {
			yield(bloom.Change{}, err)
		}
	}
}

// terminal reports whether a task's stream may end after an event of the type.
// A requeue may follow one, so the end is believed when the stream stops there.
func terminal(typ string) bool {
	switch typ {
	case bloom.EventCompleted, bloom.EventFailed, bloom.EventDead, bloom.EventCancelled:
		return true
	}
	return false
}

// follower keeps one stream open through breaks.
type follower struct {
	client *Client
	path   string
	after  int64 // the last event given out
	ended  bool  // that one was terminal
}

// errStopped says that the consumer wants no more.
var errStopped = errors.New("stopped by the consumer")

func (f *follower) run(ctx context.Context, onReconnect func(error, time.Duration), take func(message) (bool, error)) error {
	opened := f.client // with its retries, until the first connection stands
	for failures := 0; ; failures++ {
		before := f.after
		connected, err := f.follow(ctx, opened, take)
		switch {
		case errors.Is(err, errStopped), err == nil && f.ended, errors.Is(err, io.EOF):
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

// follow reads one connection's worth. io.EOF says that the server has nothing
// more to say for ever (204); nil that this connection ended.
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
		return true, io.EOF
	}
	// A connection that died without a word would block the read for ever.
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
			return true, &Unreachable{URL: c.base, Sent: true, Err: err}
		}
		if more, err := take(m); err != nil || !more {
			if err == nil {
				err = errStopped
			}
			return true, err
		}
	}
}

// stream opens a call whose answer is read as it comes. The time until the
// answer begins is bounded; after that ctx alone bounds it.
func (c *Client) stream(ctx context.Context, call *call) (*http.Response, error) {
	for n := 0; ; n++ {
		resp, err := c.open(ctx, call)
		if err == nil || n+1 >= c.retry.Tries || !call.safety.again(err) {
			return resp, err
		}
		if waited := c.beforeRetry(ctx, n, err); waited != nil {
			return nil, waited
		}
	}
}

func (c *Client) open(ctx context.Context, call *call) (*http.Response, error) {
	tryCtx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(c.timeout, cancel)
	req, err := c.request(tryCtx, call)
	if err != nil {
		late.Stop()
		cancel()
		return nil, err
	}
	resp, err := c.http.Do(req)
	inTime := late.Stop()
	if err != nil {
		cancel()
		if !inTime {
			err = errors.New("no answer in time")
		}
		return nil, c.transportError(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		err := c.apiError(ctx, resp)
		resp.Body.Close()
		cancel()
		return nil, err
	}
	if call.accept == typeEvents && !isStream(resp) {
		resp.Body.Close()
		cancel()
		return nil, c.foreign(resp, nil)
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	return resp, nil
}

// The media types of a stream.
const (
	typeEvents = "text/event-stream"
	typeLines  = "application/x-ndjson"
)

// isStream reports whether an answer is a runtime's stream, or its word that the
// stream has ended, which other servers' 204 is not.
func isStream(resp *http.Response) bool {
	if resp.StatusCode == http.StatusNoContent {
		return resp.Header.Get("X-Request-Id") != ""
	}
	kind := mediaType(resp)
	return kind == typeEvents || kind == typeLines
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// cancelBody ends the try's context together with its body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// message is one message of a stream.
type message struct {
	id   string
	data []byte
}

// event reads a message of a task's stream: the event whole, with the message's
// id as its number should the data not bring it.
func (m message) event() (bloom.Event, error) {
	var e bloom.Event
	if len(m.data) == 0 {
		return e, nil // a sign of life; number 0 is passed over
	}
	if err := json.Unmarshal(m.data, &e); err != nil {
		return e, fmt.Errorf("the server's stream is not what the contract says: %w", err)
	}
	if e.Seq == 0 {
		e.Seq, _ = strconv.ParseInt(m.id, 10, 64)
	}
	return e, nil
}

// maxLine bounds one line of a stream: an event's data with JSON's escapes.
const maxLine = 16 << 20

type lineReader struct{ r *bufio.Reader }

// line reads a line of any length up to maxLine, without its end.
func (l lineReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line of more than %d MiB", maxLine>>20)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = io.ErrUnexpectedEOF // half a line is a broken connection
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}

// sse reads the next message (WHATWG HTML, "Server-sent events"). alive is
// called for every line, comments included.
func (l lineReader) sse(alive func()) (message, error) {
	var m message
	var has bool
	for {
		line, err := l.line()
		if err != nil {
			return message{}, err
		}
		alive()
		if len(line) == 0 {
			if has {
				return m, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			m.id, has = string(value), true
		case "data":
			if m.data != nil {
				m.data = append(m.data, '\n')
			}
			m.data, has = append(m.data, value...), true
		}
	}
}

// ndjson reads the next line that is not empty.
func (l lineReader) ndjson(alive func()) (message, error) {
	for {
		line, err := l.line()
		if err != nil {
			return message{}, err
		}
		alive()
		if len(line) > 0 {
			return message{data: line}, nil
		}
	}
}
