package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Finish derives settings from each other, reads key files and validates the result. Its errors are
// for the operator.
func (s *Server) Finish(src Sources) error {
	var err error
	if s.Listen, err = ListenAddress(src, s.Listen, s.Port); err != nil {
		return err
	}
	if err := s.Keys.finish(); err != nil {
		return err
	}
	if err := s.Sealing.Finish(); err != nil {
		return err
	}
	if err := s.OIDC.finish(); err != nil {
		return err
	}
	if err := s.MembridgeAccess.finish(src); err != nil {
		return err
	}
	if err := positive(map[string]time.Duration{"--reap-interval": s.ReapInterval,
		"--membridge-sync-interval": s.SyncInterval, "--membridge-timeout": s.BridgeTimeout, "--shutdown-grace": s.ShutdownGrace,
		"--stream-timeout": s.StreamTimeout}); err != nil {
		return err
	}
	if s.BodyBudgetMiB < 32 || s.BodyBudgetMiB > 1<<20 {
		return fmt.Errorf("--body-budget-mib: %d is not between 32 and 1048576", s.BodyBudgetMiB)
	}
	if s.PageMiB < 1 || s.PageMiB > 256 {
		return fmt.Errorf("--page-mib: %d is not between 1 and 256", s.PageMiB)
	}
	if err := s.Retention.Finish(); err != nil {
		return err
	}
	if err := s.Limits.finish(); err != nil {
		return err
	}
	if err := s.Artifacts.Finish(); err != nil {
		return err
	}
	if err := s.AuditExport.finish(s.InObjects()); err != nil {
		return err
	}
	if s.ShutdownDelay < 0 {
		return errors.New("--shutdown-delay: must not be negative")
	}
	if err := s.TLS.finish(); err != nil {
		return err
	}
	if err := s.Connections.Finish(); err != nil {
		return err
	}
	return s.Data.finish()
}

// ListenAddress returns the address that a server listens on with --listen and --port.
func ListenAddress(src Sources, listen string, port int) (string, error) {
	return withPort(listen, port, src.Of("listen", "BLOOM_LISTEN"), src.Of("port", "PORT"), "--listen", "--port")
}

func (d *Data) finish() (err error) {
	if d.DataDir, err = filepath.Abs(d.DataDir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return nil
}

func (k *Keys) finish() (err error) {
	if err = ReadKey("--runtime-api-key-file", "RUNTIME_API_KEY", &k.RuntimeAPIKey, k.RuntimeAPIKeyFile); err != nil {
		return err
	}
	return ReadKey("--runtime-worker-key-file", "RUNTIME_WORKER_KEY", &k.RuntimeWorkerKey, k.RuntimeWorkerKeyFile)
}

// Finish refuses a key that is set twice.
func (s *Sealing) Finish() error {
	if s.SecretKey != "" && s.SecretKeyFile != "" {
		return errors.New("BLOOM_SECRET_KEY and --secret-key-file: set only one")
	}
	return nil
}

func (m *MembridgeAccess) finish(src Sources) error {
	if err := CheckURL(m.MembridgeServerURL); err != nil {
		return fmt.Errorf("--membridge-server-url: %w", err)
	}
	m.MembridgeChosen = src.Of("membridge_server_url", "MEMBRIDGE_SERVER_URL") != FromDefault ||
		m.MembridgeAdminKey != "" || m.MembridgeAdminKeyFile != ""
	return ReadKey("--membridge-admin-key-file", "MEMBRIDGE_ADMIN_KEY", &m.MembridgeAdminKey, m.MembridgeAdminKeyFile)
}

// Finish validates the control plane's settings.
func (m *Membridge) Finish(src Sources) (err error) {
	from := src.Of("membridge_listen", "BLOOM_MEMBRIDGE_LISTEN")
	if m.MembridgeListen, err = withPort(m.MembridgeListen, m.MembridgePort,
		from, src.Of("membridge_port", "MEMBRIDGE_PORT"), "--membridge-listen", "--membridge-port"); err != nil {
		return err
	}
	if m.MembridgeHost != "" && src.Of("membridge_host", "MEMBRIDGE_HOST") > from {
		_, port, err := net.SplitHostPort(m.MembridgeListen)
		if err != nil {
			return err
		}
		m.MembridgeListen = net.JoinHostPort(m.MembridgeHost, port)
	}
	if err := pair("--membridge-tls-cert", m.TLSCert, "--membridge-tls-key", m.TLSKey); err != nil {
		return err
	}
	return ReadKey("--membridge-agent-key-file", "MEMBRIDGE_AGENT_KEY", &m.AgentKey, m.AgentKeyFile)
}

// Finish validates a client's settings.
func (c *Client) Finish() error {
	if err := CheckURL(c.URL); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	c.URL = strings.TrimRight(c.URL, "/")
	if err := pair("--client-cert", c.Cert, "--client-key", c.CertKey); err != nil {
		return err
	}
	if err := errors.Join(present("--ca-file", c.CAFile), present("--client-cert", c.Cert), present("--client-key", c.CertKey)); err != nil {
		return err
	}
	return ReadKey("--key-file", "BLOOM_API_KEY", &c.APIKey, c.KeyFile)
}

// mcpConfigs separates the names of files; JSON has commas of its own.
func mcpConfigs(given []string) (all []string) {
	for _, c := range given {
		if isJSON(c) {
			all = append(all, c)
			continue
		}
		all = append(all, strings.Split(c, ",")...)
	}
	return all
}

func isJSON(c string) bool { return strings.HasPrefix(strings.TrimSpace(c), "{") }

// present refuses the name of a file that is not there.
func present(flag, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
