package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Finish derives settings from each other, reads key files and validates the result. Its errors are
// for the operator.
func (s *Server) Finish(src Sources) error {
	var err error
	if s.Listen, err = withPort(s.Listen, s.Port, src.Of("listen", "BLOOM_LISTEN"), src.Of("port", "PORT"), "--listen", "--port"); err != nil {
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

// Secure reports whether the server speaks https.
func (t *TLS) Secure() bool { return t.TLSCert != "" || len(t.ACMEDomain) > 0 }

// finish refuses settings that would have no effect: an operator who configures TLS must not get
// plain HTTP.
func (t *TLS) finish() error {
	if err := pair("--tls-cert", t.TLSCert, "--tls-key", t.TLSKey); err != nil {
		return err
	}
	if err := errors.Join(present("--tls-cert", t.TLSCert), present("--tls-key", t.TLSKey), present("--tls-client-ca", t.TLSClientCA)); err != nil {
		return err
	}
	if t.TLSCert != "" && len(t.ACMEDomain) > 0 {
		return errors.New("--tls-cert and --acme-domain: set only one; a certificate comes from files or from ACME")
	}
	for _, one := range []struct {
		flag, value string
		on          bool
		needs       string
	}{
		{"--tls-client-ca", t.TLSClientCA, t.Secure(), "--tls-cert or --acme-domain"},
		{"--http-redirect", t.HTTPRedirect, t.Secure(), "--tls-cert or --acme-domain"},
		{"--acme-email", t.ACMEEmail, len(t.ACMEDomain) > 0, "--acme-domain"},
		{"--acme-directory", t.ACMEDirectory, len(t.ACMEDomain) > 0, "--acme-domain"},
		{"--acme-roots", t.ACMERoots, len(t.ACMEDomain) > 0, "--acme-domain"},
	} {
		if one.value != "" && !one.on {
			return fmt.Errorf("%s has no effect without %s", one.flag, one.needs)
		}
	}
	if t.HTTPRedirect != "" {
		if _, err := withPort(t.HTTPRedirect, 0, FromDefault, FromDefault, "--http-redirect", ""); err != nil {
			return err
		}
	}
	return nil
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
	if m.MembridgeListen, err = withPort(m.MembridgeListen, m.MembridgePort,
		src.Of("membridge_listen", "BLOOM_MEMBRIDGE_LISTEN"), src.Of("membridge_port", "MEMBRIDGE_PORT"),
		"--membridge-listen", "--membridge-port"); err != nil {
		return err
	}
	if m.MembridgeHost != "" && src.Of("membridge_host", "MEMBRIDGE_HOST") >= src.Of("membridge_listen", "BLOOM_MEMBRIDGE_LISTEN") {
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

// Finish validates a worker's settings for membridge.
func (a *Announcement) Finish() error {
	if a.MembridgeURL != "" {
		if err := CheckURL(a.MembridgeURL); err != nil {
			return fmt.Errorf("--membridge-url: %w", err)
		}
	}
	if err := ReadKey("--membridge-agent-key-file", "MEMBRIDGE_AGENT_KEY", &a.AgentKey, a.AgentKeyFile); err != nil {
		return err
	}
	return ReadKey("--membridge-admin-key-file", "MEMBRIDGE_ADMIN_KEY", &a.MembridgeAdminKey, a.MembridgeAdminKeyFile)
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

// Finish validates a worker's settings. Folders that are not set default to the data folder.
func (r *Run) Finish(dataDir string) error {
	if r.MaxConcurrency < 1 || r.MaxConcurrency > 32 {
		return fmt.Errorf("--max-concurrency: %d is not between 1 and 32", r.MaxConcurrency)
	}
	if r.KeepAlive = -1; r.Warm != "auto" {
		n, err := strconv.Atoi(r.Warm)
		if err != nil || n < 0 || n > 64 {
			return fmt.Errorf("--warm: %q is neither auto nor a number from 0 to 64", r.Warm)
		}
		r.KeepAlive = n
	}
	if r.UploadMaxMiB < 0 || r.UploadMaxMiB > maxFileMiB {
		return fmt.Errorf("--upload-max-mib: %d is not between 0 and %d", r.UploadMaxMiB, maxFileMiB)
	}
	if r.UploadMaxFiles < 0 || r.UploadMaxFiles > bloom.MaxFiles {
		return fmt.Errorf("--upload-max-files: %d is not between 0 and %d", r.UploadMaxFiles, bloom.MaxFiles)
	}
	if r.LeaseTTL < time.Second || r.LeaseTTL > 2*time.Hour {
		return fmt.Errorf("--lease-ttl: %s is not between 1s and 2h", r.LeaseTTL)
	}
	if r.AnnounceEvery < time.Second || r.AnnounceEvery > time.Hour {
		return fmt.Errorf("--membridge-interval: %s is not between 1s and 1h", r.AnnounceEvery)
	}
	if r.DrainGrace < 0 {
		return errors.New("--drain-grace: must not be negative")
	}
	if wrong := (bloom.WorkerSpec{Name: r.Name}).Check(); len(wrong) > 0 {
		return fmt.Errorf("--name: %q %s", r.Name, wrong[0].Message)
	}
	r.MCPConfig = mcpConfigs(r.MCPConfig)
	for _, c := range r.MCPConfig {
		if err := checkMCP(c); err != nil {
			return fmt.Errorf("--mcp-config: %w", err)
		}
	}
	for _, name := range r.PassEnv {
		if strings.ContainsAny(name, "= \t") {
			return fmt.Errorf("--pass-env: %q is not a valid variable name", name)
		}
	}
	for _, dir := range []struct {
		path  *string
		inner string
	}{{&r.Workdir, "workdir"}, {&r.AgentsDir, "agents"}} {
		if *dir.path == "" {
			*dir.path = filepath.Join(dataDir, dir.inner)
		}
		abs, err := filepath.Abs(*dir.path)
		if err != nil {
			return err
		}
		*dir.path = abs
	}
	return nil
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

// checkMCP refuses what claude would refuse in every run: c is the configuration itself,
// or the name of its file.
func checkMCP(c string) error {
	name, raw := "the value", []byte(c)
	if !isJSON(c) {
		info, err := os.Stat(c)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() { // a named pipe would never end
			return fmt.Errorf("%s is not a regular file", c)
		}
		if raw, err = os.ReadFile(c); err != nil {
			return err
		}
		name = c
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Errorf("%s is not a JSON object: %w", name, err)
	}
	return nil
}

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
