package e2e_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"
)

// output stores what a process prints and wakes those who wait for a line.
type output struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	grown  chan struct{} // closed and replaced when something is printed
	closed bool
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b)
	o.wake()
	return len(b), nil
}

func (o *output) wake() {
	close(o.grown)
	o.grown = make(chan struct{})
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wake()
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// tail returns the end of the output, without requests that only read, which is enough to see what
// went wrong.
func (o *output) tail() string {
	const most = 12 << 10
	var b strings.Builder
	for line := range strings.Lines(o.String()) {
		if !strings.Contains(line, `msg="GET /`) {
			b.WriteString(line)
		}
	}
	s := b.String()
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return s
}

func (o *output) find(texts []string, within time.Duration) (string, bool) {
	deadline := time.After(within)
	held := func(line string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
	}
	for {
		o.mu.Lock()
		s, grown, closed := o.buf.String(), o.grown, o.closed
		o.mu.Unlock()
		for line := range strings.Lines(s) {
			if strings.HasSuffix(line, "\n") && held(line) {
				return strings.TrimSpace(line), true
			}
		}
		if closed {
			return "", false
		}
		select {
		case <-grown:
		case <-deadline:
			return "", false
		}
	}
}
