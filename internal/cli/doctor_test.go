package cli_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// A server that answers is running, whatever is wrong with it: doctor must not advise to stop it.
func TestDoctorKnowsARunningServerByItsCertificate(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	p := newPerson(t, rt)
	behind, err := url.Parse(rt.URL)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(behind))
	defer secure.Close()
	args := []string{"doctor", "--claude=/nowhere/claude", "--data-dir", t.TempDir(), "--url", secure.URL, "--listen", strings.TrimPrefix(secure.URL, "https://")}

	got := p.run(args...)
	if !strings.Contains(got.out, "is not trusted: x509") || strings.Contains(got.out, "stop that program") || strings.Contains(got.out, "no runtime answers") {
		t.Errorf("a certificate that is not trusted:\n%s", got.out)
	}

	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.run(append(args, "--ca-file", ca)...); !strings.Contains(got.out, secure.URL+" is healthy") {
		t.Errorf("with its authority:\n%s", got.out)
	}
}

// The time that a slow claude takes to print its version does not count as a difference between
// clocks.
func TestDoctorTakesTheTimeWhenTheServerAnswers(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	slow := filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nsleep 7\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := newPerson(t, rt).run("doctor", "--claude", slow, "--data-dir", t.TempDir(), "--listen=127.0.0.1:0")
	if !strings.Contains(got.out, "this clock agrees with the server's") {
		t.Errorf("with a claude that takes 7 s:\n%s", got.out)
	}
}

// The examination follows a redirect as little as other commands do: its target would read the key.
func TestDoctorSendsTheKeyToNoOtherServer(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	p := newPerson(t, nil)
	p.env["BLOOM_API_KEY"] = runtimetest.AdminKey
	wantRun(t, p.run("doctor", "--claude=/nowhere/claude", "--data-dir", t.TempDir(), "--listen=127.0.0.1:0", "--url", server.URL), cli.ExitFailure, "it redirects to")
}

// The port that it examines is the one that a server started here would have.
func TestDoctorExaminesThePortOfTheServer(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, p.env["PORT"], _ = net.SplitHostPort(taken.Addr().String())
	wantRun(t, p.run("doctor", "--claude=/nowhere/claude", "--data-dir", t.TempDir(), "--url", "http://127.0.0.1:1"), cli.ExitFailure, taken.Addr().String()+" is in use")
}

// A runtime that answers elsewhere does not hold the port of another program; one behind a proxy
// holds its own.
func TestDoctorKnowsWhoHoldsThePort(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	behind, err := url.Parse(rt.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(behind))
	defer proxy.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	p := newPerson(t, rt)
	for listen, want := range map[string]string{other.URL: "stop that program", rt.URL: "a runtime is running"} {
		got := p.run("doctor", "--claude=/nowhere/claude", "--data-dir", t.TempDir(), "--url", proxy.URL, "--listen", strings.TrimPrefix(listen, "http://"))
		for _, sentence := range []string{"stop that program", "a runtime is running"} {
			if strings.Contains(got.out, sentence) != (sentence == want) {
				t.Errorf("%s, want %q:\n%s", listen, want, got.out)
			}
		}
	}
}

// Only one of URL and address is usually set; the other follows from it.
func TestDoctorLooksWhereTheServerIs(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	address := strings.TrimPrefix(rt.URL, "http://")
	for name, c := range map[string]struct {
		args      []string
		want, not string
	}{
		"by its address":     {[]string{"--listen", address}, rt.URL + " is healthy", "no runtime answers"},
		"by its URL":         {[]string{"--url", rt.URL}, address + " is in use", "127.0.0.1:5000"},
		"on another machine": {[]string{"--url", "http://name.invalid:1"}, "no runtime answers", "port "},
	} {
		p := newPerson(t, nil)
		p.env["BLOOM_API_KEY"] = runtimetest.AdminKey
		got := p.run(append([]string{"doctor", "--claude=/nowhere/claude", "--data-dir", t.TempDir()}, c.args...)...)
		if !strings.Contains(got.out, c.want) || strings.Contains(got.out, c.not) {
			t.Errorf("%s:\n%s%s", name, got.out, got.err)
		}
	}
}
