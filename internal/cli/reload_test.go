package cli_test

import (
	"strings"
	"syscall"
	"testing"
)

// TestSIGHUPChangesTheLogsLevel at run time, and a broken file changes nothing.
func TestSIGHUPChangesTheLogsLevel(t *testing.T) {
	t.Parallel()
	s := newStage(t, "server")
	s.file("bloom.toml", `log_level = "error"`)
	s.start("--config={dir}/bloom.toml", "--data-dir={dir}/data", "--listen=127.0.0.1:0", "--membridge-server-url={bridge}")
	hangup := func(config, says string) {
		s.file("bloom.toml", config)
		_ = s.cmd.Process.Signal(syscall.SIGHUP)
		s.says(says)
	}
	s.wants(200, "GET", s.url()+"/health", "")
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
