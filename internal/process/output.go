package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// maxDrain bounds reading the remaining output after every process has ended.
const maxDrain = 2 * time.Minute

// output copies a command's output. Unlike exec's own copying, it gives up after the end only when
// nothing arrives for a while (another process has inherited the pipe and holds it open), not when
// the reader is slow.
type output struct {
	r     *os.File
	end   *os.File // the command's
	w     io.Writer
	ended atomic.Bool
	delay time.Duration
	done  chan struct{}
	err   error // set before done is closed
}

// pipeTo makes *target write to w through a pipe. A file is passed to the command directly; then,
// and when w is nil, nothing is copied and the output is nil, which all methods accept.
func pipeTo(target *io.Writer, w io.Writer, delay time.Duration) (*output, error) {
	if _, isFile := w.(*os.File); isFile || w == nil {
		*target = w
		return nil, nil //nolint:nilnil // documented above
	}
	r, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*target = end
	return &output{r: r, end: end, w: w, delay: delay, done: make(chan struct{})}, nil
}

// begin starts copying; the command has its end of the pipe.
func (o *output) begin() {
	if o != nil {
		_ = o.end.Close()
		go o.copy()
	}
}

func (o *output) copy() {
	defer close(o.done)
	defer o.r.Close()
	buf := make([]byte, 64<<10)
	for {
		if o.ended.Load() {
			_ = o.r.SetReadDeadline(time.Now().Add(o.delay)) // a pipe takes deadlines
		}
		n, err := o.r.Read(buf)
		if n > 0 {
			if _, err := o.w.Write(buf[:n]); err != nil {
				o.err = err
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			o.err = exec.ErrWaitDelay
			return
		default:
			return // the end
		}
	}
}

// drain waits for the remaining output of a command that has ended.
func drain(outputs ...*output) (err error) {
	limit, cancel := context.WithTimeout(context.Background(), maxDrain)
	defer cancel()
	for _, o := range outputs {
		err = errors.Join(err, o.finish(limit))
	}
	return err
}

func (o *output) finish(limit context.Context) error {
	if o == nil {
		return nil
	}
	o.ended.Store(true)
	_ = o.r.SetReadDeadline(time.Now().Add(o.delay))
	select {
	case <-o.done:
		return o.err
	case <-limit.Done():
		return exec.ErrWaitDelay
	}
}

// discard closes an unused pipe.
func (o *output) discard() {
	if o != nil {
		_ = o.r.Close()
		_ = o.end.Close()
	}
}
