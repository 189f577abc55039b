package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

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

// Finish validates a worker's settings. Folders that are not set default to the data directory.
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
	if r.UploadMaxFiles < 0 || r.UploadMaxFiles > contract.MaxFiles {
		return fmt.Errorf("--upload-max-files: %d is not between 0 and %d", r.UploadMaxFiles, contract.MaxFiles)
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
	if r.ContextDirs == nil {
		r.ContextDirs = new(r.Workdir == "")
	}
	if r.Workdir != "" {
		if _, err := os.Stat(r.Workdir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--workdir: the folder %s does not exist; correct the path, or create the folder first", r.Workdir)
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

// PerContext reports whether each context has a working folder of its own.
func (r Run) PerContext() bool { return r.ContextDirs != nil && *r.ContextDirs }

// Folders describes where tasks work.
func (r Run) Folders() string {
	if r.PerContext() {
		return "a folder for each context in " + r.Workdir
	}
	return r.Workdir + ", which all contexts share"
}

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
