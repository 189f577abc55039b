package membridge_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
)

// Bodies that do not arrive take a limited memory, of which agents leave a part to admins.
func TestHalfSentBodiesOfAgentsLeaveRoom(t *testing.T) {
	t.Parallel()
	p := start(t)
	for range 16 { // each counts as the megabyte that it announces
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST /agents HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", membridge.AgentHeader, agentKey, 1<<20); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 8)); err != nil { // the body is waited for
			t.Fatal(err)
		}
	}
	body := `{"name":"a","url":"http://127.0.0.1:1"}`
	if a := p.as(t, http.Header{membridge.AgentHeader: {agentKey}}, "POST", "/agents", body); a.status != 503 {
		t.Errorf("another agent: %d %s", a.status, a.body)
	}
	if a := p.do(t, "POST", "/agents", body); a.status >= 500 {
		t.Errorf("an admin: %d %s", a.status, a.body)
	}
}
