package claude

import "bytes"

// lineWriter splits what is written to it into lines. It accepts lines of any length, and
// calls tooLong instead of line for a line of more than max bytes.
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

// flush passes on the current line. Call it at the end of the output, too, for a last
// line without a newline.
func (w *lineWriter) flush() {
	switch {
	case w.size > w.max:
		w.tooLong(w.size)
	case w.size > 0:
		w.line(w.kept)
	}
	w.size = 0
	if cap(w.kept) > 1<<20 {
		w.kept = nil // free the memory of a huge line
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
