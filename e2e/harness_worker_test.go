package e2e_test

import (
	"os"
	"path/filepath"
)

// workerOptions are the differences from the usual worker.
type workerOptions struct {
	name string
	env  []string // instead of the model's address and key
	args []string
	// claude is the command line; "" is the real one.
	claude string
	// ownFolders gives each context a folder, which is the default; else all share one.
	ownFolders bool
	// program is the worker's binary; "" is the one under test.
	program string
}

// modelEnv is the environment in which claude uses the stand-in.
func (h *harness) modelEnv(credential string) []string {
	env := []string{
		"ANTHROPIC_BASE_URL=" + h.apiOf, "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	if credential != "" {
		env = append(env, credential)
	}
	return env
}

// work starts a worker and waits until the server lists it. A worker restarted under its name keeps
// its folders.
func (h *harness) work(o workerOptions) *proc {
	h.t.Helper()
	env := o.env
	if env == nil {
		env = h.modelEnv("ANTHROPIC_API_KEY=dummy")
	}
	if o.claude == "" {
		o.claude = claudeBinary(h.t)
	}
	env = append(h.env("BLOOM_API_KEY="+workerKey, "CLAUDE_CONFIG_DIR="+h.configDir(o.name)), env...)
	args := []string{
		"worker", "--runtime-url", h.url, "--name", o.name, "--data-dir", filepath.Join(h.dir, "data-"+o.name),
		"--agents-dir", filepath.Join(h.dir, "agents-"+o.name), "--claude", o.claude, "--pass-env", markName,
	}
	if !o.ownFolders {
		if err := os.MkdirAll(h.workdir(o.name), 0o755); err != nil {
			h.t.Fatal(err)
		}
		args = append(args, "--workdir", h.workdir(o.name))
	}
	p := spawnAs(h.t, o.program, "worker "+o.name, append(env, markName+"="+h.markOf(o.name)), append(args, o.args...)...)
	h.workers = append(h.workers, p)
	return p
}

func (h *harness) markOf(worker string) string { return h.mark + "." + worker }

func (h *harness) configDir(worker string) string { return filepath.Join(h.dir, "claude-"+worker) }

// workdir returns the folder in which a worker's tasks run.
func (h *harness) workdir(worker string) string { return filepath.Join(h.dir, "work-"+worker) }

// outbox lists the outcomes that a worker has not delivered.
func (h *harness) outbox(worker string) []string {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "data-"+worker, "workers", worker, "state", "outbox", "*.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	return files
}
