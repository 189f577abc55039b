package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/search"
)

// answerBytes is the memory of a page of texts, before it is encoded, and leastAnswers lets three
// callers read one each.
const (
	answerBytes  = search.DefaultPageBytes
	leastAnswers = 6 * answerBytes
	// unpagedAnswers is how many pages a response without pages may take.
	unpagedAnswers = 4
)

// largeAnswer is the size from which a response counts towards the budget while it is sent.
const largeAnswer = 64 << 10

var errBusyAnswers = &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeBusy,
	Message: "The server has no memory for another large response now; read the others, or try again shortly"}

// reserve waits until there is room for n bytes, and for as much again for their encoding. The
// reservation ends with the call.
func (s *Server) reserve(ctx context.Context, c *call, n int64) (err error) {
	if c.reserved != nil {
		return nil
	}
	c.reserved, err = s.admit(ctx, c, s.answers, 2*n, errBusyAnswers)
	return err
}

// answered reduces the call's reservation to what a response of n bytes takes.
func (c *call) answered(n int) {
	switch {
	case c.reserved == nil:
	case n < largeAnswer:
		c.reserved.Shrink(0)
		c.reserved = nil
	default:
		c.reserved.Shrink(2 * int64(n))
	}
}

// jsonFormat is how huma encodes responses. It sends a large response at the pace of its reader, and
// long texts and lists without pages without the whole encoding in memory.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		switch v := v.(type) {
		case bloom.Completed:
			if v.Result.Output != nil {
				return dispatch.EncodeLong(steady(w), *v.Result.Output, func(short *string) any {
					v.Result.Output = short
					return v
				})
			}
		case resultList:
			return v.write(w)
		case workerList:
			return v.write(w)
		}
		return encode(w, v)
	},
	Unmarshal: json.Unmarshal,
}

func encode(w io.Writer, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= keepBuffer {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if err := huma.DefaultJSONFormat.Marshal(buf, v); err != nil {
		return err
	}
	if rec, is := w.(*recorder); is && rec.call != nil {
		rec.call.answered(buf.Len())
	}
	if buf.Len() >= largeAnswer {
		w = steady(w)
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// resultList is a task's results. If newest is not nil, it has the output of the first.
type resultList struct {
	results []bloom.Result
	newest  io.ReadCloser
}

// Schema describes the list as the array that it is.
func (resultList) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: r.Schema(reflect.TypeFor[bloom.Result](), true, "Result")}
}

func (l resultList) write(w io.Writer) error {
	if l.newest == nil {
		return encode(w, l.results)
	}
	defer l.newest.Close()
	others := largeAnswer
	for _, r := range l.results[1:] {
		if r.Output != nil {
			others += len(*r.Output)
		}
	}
	if rec, is := w.(*recorder); is && rec.call != nil {
		rec.call.answered(others)
	}
	if err := dispatch.EncodeFrom(steady(w), l.newest, func(output *string) any {
		l.results[0].Output, l.results[0].OutputTruncated = output, false
		return l.results
	}); err != nil {
		panic(http.ErrAbortHandler) // cut, so that nobody takes it for whole
	}
	return nil
}

// slowestReader is how fast a large response must be read on average, in bytes per second.
const slowestReader = 64 << 10

// steadyResponse is a response that must be read with slowestReader, from until on.
type steadyResponse struct {
	http.ResponseWriter
	rc    *http.ResponseController
	until time.Time
}

// steady requires w, if it is a response, to be read steadily.
func steady(w io.Writer) io.Writer {
	if response, is := w.(http.ResponseWriter); is {
		return &steadyResponse{response, http.NewResponseController(response), time.Now().Add(DefaultStreamTimeout)} // real time, not the injected clock
	}
	return w
}

func (p *steadyResponse) Write(b []byte) (int, error) {
	p.until = p.until.Add(time.Duration(len(b)) * time.Second / slowestReader)
	_ = p.rc.SetWriteDeadline(p.until)
	return p.ResponseWriter.Write(b)
}
