package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// streamSilence is how long a stream may be silent before it is reopened. The server sends
// keep-alives more often.
const streamSilence = 60 * time.Second

// stream opens a call whose response is read as it arrives. The time until the response starts is
// bounded; after that only ctx bounds it.
func (c *Client) stream(ctx context.Context, call *call) (*http.Response, error) {
	for n := 0; ; n++ {
		resp, err := c.open(ctx, call)
		if err == nil || n+1 >= c.retry.Tries || !call.safety.mayRetry(err) {
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
	if err == nil && resp.StatusCode/100 != 2 { // read within the time, too
		err := c.apiError(ctx, resp)
		late.Stop()
		resp.Body.Close()
		cancel()
		return nil, err
	}
	if inTime := late.Stop(); err != nil {
		cancel()
		if !inTime {
			err = errors.New("timed out waiting for the response")
		}
		return nil, c.transportError(ctx, err)
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

// isStream reports whether a response is a runtime's stream, or a runtime's 204 that the stream has
// ended.
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

// cancelBody cancels the try's context when its body is closed.
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

// event decodes an event of a task's stream. Its number defaults to the message's id.
func (m message) event() (bloom.Event, error) {
	var e bloom.Event
	if len(m.data) == 0 {
		return e, nil // a keep-alive; number 0 is skipped
	}
	if err := json.Unmarshal(m.data, &e); err != nil {
		return e, fmt.Errorf("invalid message in the server's stream: %w", err)
	}
	if e.Seq == 0 {
		e.Seq, _ = strconv.ParseInt(m.id, 10, 64)
	}
	return e, nil
}

// maxLine bounds one line of a stream, in bytes: an event's data with JSON escapes.
const maxLine = 16 << 20

type lineReader struct{ r *bufio.Reader }

// line reads a line of at most maxLine bytes, without its terminator.
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
