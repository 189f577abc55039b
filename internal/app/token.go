package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		if err := writeToken(dir, path); err != nil {
			return "", fmt.Errorf("the token for membridge: %w", err)
		}
	}
	return "", fmt.Errorf("the token for membridge in %s cannot be read back", path)
}

func writeToken(dir, path string) (err error) {
	f, err := os.CreateTemp(dir, ".tmp-*") // readable by its owner only
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(randomKey() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
