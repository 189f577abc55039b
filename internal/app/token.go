package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// tokenFile holds what a worker proves to membridge with that its name is its
// own, in the folder of its state: whoever has the folder is the worker.
const tokenFile = "membridge-token"

// agentToken reads the worker's token, or makes one. It is there whole or not at
// all, and survives a power failure: membridge keeps nothing but its digest.
func agentToken(dir string) (string, error) {
	path := filepath.Join(dir, tokenFile)
	for range 2 {
		raw, err := os.ReadFile(path)
		if token := strings.TrimSpace(string(raw)); err == nil && token != "" {
			return token, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("the token for membridge: %w", err)
		}
		if err := durable.Replace(path, []byte(randomKey()+"\n")); err != nil {
			return "", fmt.Errorf("the token for membridge: %w", err)
		}
	}
	return "", fmt.Errorf("the token for membridge in %s cannot be read back", path)
}
