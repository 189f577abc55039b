package claude

import "bytes"

// lineWriter cuts what is written to it into lines. A line may be of any
// length: everything is read, at most max bytes of a line are kept, and a line
// that was longer is reported as such instead of being handed over.
type lineWriter struct {
	max     int
	line    func([]byte)   // the slice is reused after the call
	tooLong func(size int) // a line of size bytes was skipped

	kept []byte
	size int
}

func (w *lineWriter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.keep(p)
			break
		}
		w.keep(p[:end])
		w.flush()
		p = p[end+1:]
	}
	return written, nil
}

func (w *lineWriter) keep(p []byte) {
	w.size += len(p)
	if room := w.max - len(w.kept); room > 0 {
		w.kept = append(w.kept, p[:min(room, len(p))]...)
	}
}

// flush hands the line over; it is also called at the end of the output, for a
// last line without a newline.
func (w *lineWriter) flush() {
	switch {
	case w.size > w.max:
		w.tooLong(w.size)
	case w.size > 0:
		w.line(w.kept)
	}
	w.size = 0
	if cap(w.kept) > 1<<20 {
		w.kept = nil // one huge line must not pin its memory for the whole run
	}
	w.kept = w.kept[:0]
}

// tail keeps the last max bytes that were written to it.
type tail struct {
	max  int
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if excess := len(t.data) - t.max; excess > 0 {
		t.data = append(t.data[:0], t.data[excess:]...)
	}
	return len(p), nil
}
