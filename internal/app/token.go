package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
)

// orderFile holds membridge's last order to drain that the worker was told of:
// one that was carried out, and lifted at the runtime, is not to come back.
const orderFile = "membridge-order"

// keptOrder reads the last order, the zero one when there never was any.
func keptOrder(dir string) (o bloom.DrainOrder, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, orderFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return o, fmt.Errorf("membridge's last order in %s: %w", filepath.Join(dir, orderFile), err)
	}
	return o, nil
}

func keepOrder(dir string, o bloom.DrainOrder) error {
	return durable.Replace(filepath.Join(dir, orderFile), append(bloom.MustJSON(o), '\n'))
}

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
