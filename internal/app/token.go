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

// tokenFile is the file, in the worker's state folder, of the token that proves the ownership of
// its name to membridge.
const tokenFile = "membridge-token"

// agentToken reads the worker's token, or creates it atomically and durably: membridge stores only
// its digest.
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
	return "", fmt.Errorf("the token for membridge in %s cannot be read after it was written", path)
}
