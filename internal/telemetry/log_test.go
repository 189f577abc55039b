package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/telemetry"
)

// TestALogFileIsRotated at 100 MB: the earlier records are in compressed files beside it, and none
// is lost.
func TestALogFileIsRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "bloom.log")
	log, err := telemetry.OpenLog(telemetry.LogConfig{Level: "info", File: path})
	if err != nil {
		t.Fatal(err)
	}
	const records = 101
	text := strings.Repeat("x", 1<<20)
	for range records {
		log.Info(text, "record", "whole")
	}
	var packed []string
	for deadline := time.Now().Add(2 * time.Minute); len(packed) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was rotated")
		}
		if packed, err = filepath.Glob(filepath.Join(dir, "bloom-*.log.gz")); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := unpacked(t, packed[0])
	if got := bytes.Count(before, []byte(" record=whole\n")) + bytes.Count(now, []byte(" record=whole\n")); len(packed) != 1 || got != records {
		t.Errorf("%d records in %v and the log, want %d", got, packed, records)
	}
}

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
