package cli_test

import (
	"strings"
	"syscall"
	"testing"
)

// TestSIGHUPChangesTheLogsLevel at run time, also when there was no file at the start. A broken
// file changes nothing.
func TestSIGHUPChangesTheLogsLevel(t *testing.T) {
	t.Parallel()
	s := newStage(t, "server")
	s.start("--log-level=error", "--data-dir={dir}/data", "--listen=127.0.0.1:0", "--membridge-server-url={bridge}")
	hangup := func(config, says string) {
		s.file(".config/bloom/config.toml", config)
		_ = s.cmd.Process.Signal(syscall.SIGHUP)
		s.says(says)
	}
	s.await("a server that has started", func() bool {
		status, _ := s.call("GET", s.url()+"/health", "")
		return status == 200
	})
	hangup(`log_level = "info"`, `level=INFO msg=reloaded log_level=info`)
	if strings.Contains(s.out.String(), "GET /health") {
		t.Error("it logged below its level")
	}
	s.wants(200, "GET", s.url()+"/healthz", "")
	s.says(`GET /healthz 200`)
	hangup(`log_level = "loud"`, `log level unchanged`)
	s.wants(200, "GET", s.url()+"/readyz", "")
	s.says(`GET /readyz 200`)
}
