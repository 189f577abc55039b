package front_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/bloom-runtime/bloom/internal/front"
)

// standardPort is a listener that claims port 443.
type standardPort struct{ net.Listener }

func (standardPort) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func TestRedirectsKeepTheHost(t *testing.T) {
	t.Parallel()
	for _, standard := range []bool{true, false} {
		files := filesIn(t.TempDir())
		certificate(t, files, 1)
		secure, plain := listen(t), listen(t)
		_, port, _ := net.SplitHostPort(secure.Addr().String())
		if standard {
			secure, port = standardPort{secure}, ""
		}
		open(t, front.Config{Listener: secure, Redirect: plain, TLS: files})
		for host, name := range map[string]string{
			"example.org": "example.org", "example.org:80": "example.org", "192.0.2.1:8080": "192.0.2.1",
			"[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:80": "2001:db8::1",
		} {
			r := httptest.NewRequest("GET", "http://"+plain.Addr().String()+"/tasks?a=1", nil)
			r.RequestURI, r.Host = "", host
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			to, err := url.Parse(res.Header.Get("Location"))
			if err != nil || to.Scheme != "https" || to.Hostname() != name || to.Port() != port || to.RequestURI() != "/tasks?a=1" {
				t.Errorf("%s, standard port %v: %q, %v", host, standard, res.Header.Get("Location"), err)
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
