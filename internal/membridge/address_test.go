package membridge_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
)

func TestAgentsReceiveTheRuntimesURL(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, c := range []struct{ configured, host, want string }{
		{"http://runtime.example:5000", "membridge.example:8000", "http://runtime.example:5000"},
		{"http://0.0.0.0:5000", "membridge.example:8000", "http://membridge.example:5000"},
		{"http://[::]:5000", "10.0.0.7:8000", "http://10.0.0.7:5000"},
		{"http://[::]:5000", "[fd00::2]:8000", "http://[fd00::2]:5000"},
		{"https://0.0.0.0", "[fd00::2]", "https://[fd00::2]"},
		{"https://0.0.0.0/runtime", "membridge.example", "https://membridge.example/runtime"},
		{"", "membridge.example:8000", ""},
	} {
		p.SetRuntimeURL(c.configured)
		for _, path := range []string{"/agents", "/agents/w/heartbeat"} {
			r := httptest.NewRequest(http.MethodPost, "http://"+c.host+path, strings.NewReader(`{"name":"w"}`))
			r.Header.Set(membridge.AdminHeader, adminKey)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			p.Handler().ServeHTTP(w, r)
			var answer struct {
				RuntimeURL string `json:"runtime_url"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code >= 300 || answer.RuntimeURL != c.want {
				t.Errorf("%s called by %s%s: %d, %q, want %q", c.configured, c.host, path, w.Code, answer.RuntimeURL, c.want)
			}
		}
	}
}
