package claude

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

// maxStartupFiles is the maximum number of files that are compared before a warm process
// is used again.
const maxStartupFiles = 5_000

var errTooManyFiles = errors.New("too many settings, agents and skills to compare")

// startKey returns a hash of everything that claude reads only at its start: the program,
// its options, its environment, its folder, and the state of the files with settings,
// instructions, agents and the like. When it fails, no process may be kept alive.
func (s *coldSession) startKey(ctx context.Context) (string, error) {
	program, err := os.Stat(s.path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	parts := json.NewEncoder(sum)
	if err := parts.Encode([]any{s.path, program.ModTime(), program.Size(), s.tools.option(), s.args, s.config.environment(), s.workdir}); err != nil {
		return "", err
	}
	left := maxStartupFiles
	for _, path := range s.config.startupFiles(s.workdir) {
		if err := visitFiles(ctx, path, &left, func(path string, info fs.FileInfo) {
			fmt.Fprintln(sum, path, info.ModTime().UnixNano(), info.Size(), info.Mode())
		}); err != nil {
			return "", err
		}
	}
	// claude itself writes to this file all the time; only its MCP servers matter.
	for _, dir := range []string{filepath.Dir(s.config.configDir()), s.config.configDir()} {
		servers, err := mcpServers(filepath.Join(dir, ".claude.json"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s\n", servers)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// startupFiles returns the files and folders that claude reads at its start.
func (c Config) startupFiles(workdir string) []string {
	paths := append([]string{filepath.Join(workdir, ".claude"), filepath.Join(workdir, ".mcp.json"), "/etc/claude-code"}, c.MCPConfig...)
	for _, name := range []string{
		"settings.json", "settings.local.json", "CLAUDE.md", ".credentials.json",
		"agents", "commands", "skills", "rules", "hooks", "output-styles", "plugins/config.json", "plugins/installed_plugins.json",
	} {
		paths = append(paths, filepath.Join(c.configDir(), name))
	}
	for dir := workdir; ; dir = filepath.Dir(dir) {
		paths = append(paths, filepath.Join(dir, "CLAUDE.md"), filepath.Join(dir, "CLAUDE.local.md"), filepath.Join(dir, "AGENTS.md"))
		if dir == filepath.Dir(dir) {
			return paths
		}
	}
}

// visitFiles visits the file, or everything below the folder. It skips what does not
// exist. It follows a symbolic link at path, but enters no linked folder below it.
func visitFiles(ctx context.Context, path string, left *int, visit func(string, fs.FileInfo)) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // it does not exist, or claude cannot read it either
	}
	visit(path, info)
	if !info.IsDir() {
		return nil
	}
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if *left--; *left < 0 {
			return errTooManyFiles
		}
		if err != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := os.Stat(path)
		if err == nil {
			visit(path, info)
		}
		return nil
	})
}

// maxState limits what is read of claude's own state file, in bytes.
const maxState = 16 << 20

// mcpServers returns the user's MCP servers from claude's own state file, undecoded.
func mcpServers(path string) (json.RawMessage, error) {
	raw, err := readLinked(path, maxState+1)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, workspace.ErrNotRegular):
		return nil, nil // there are none
	case err != nil:
		return nil, err
	case len(raw) > maxState:
		return nil, errTooManyFiles
	}
	var state struct {
		Servers json.RawMessage `json:"mcpServers"`
	}
	_ = json.Unmarshal(raw, &state) // the file may be being written
	return state.Servers, nil
}
