package front

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// FuzzFraming: requests that net/http accepts state the length of their body once, in whatever
// pieces the bytes arrive.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\ncontent-length: 2\r\nContent-Length: 2\r\n\r\nhi", "POST / HTTP/1.0\nContent-Length:2\n\nhi",
		"\r\n\r\nPOST / HTTP/1.1\nHost: h\nTransfer-Encoding : chunked\n\n", "POST / HTTP/1.1\r\nHost: h\r\nX: a\r\n Content-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(seed), 7)
	}
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		whole, cut := bytes.Clone(in), bytes.Clone(in)
		var a, b framing
		a.look(whole)
		for at, size := 0, max(1, piece%64); at < len(cut); at += size {
			b.look(cut[at:min(at+size, len(cut))])
		}
		if !bytes.Equal(whole, cut) {
			t.Fatalf("in pieces of %d it is read as %q, at once as %q", piece, cut, whole)
		}
		r := bufio.NewReader(bytes.NewReader(whole))
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		head := string(whole[:len(whole)-r.Buffered()])
		stated := 0
		for line := range strings.SplitSeq(strings.TrimLeft(head, "\r\n"), "\n") {
			name, _, isHeader := strings.Cut(line, ":")
			if isHeader && (strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding")) {
				stated++
			}
		}
		if stated > 1 {
			t.Fatalf("net/http accepts a request that states its length %d times: %q", stated, head)
		}
	})
}
