package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program that keeps a key's pipe open without writing must not block the start.
func TestReadingASilentPipeTimesOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for _, written := range []string{"", "half a key"} {
		if _, err := writer.WriteString(written); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := readWithin(path, 1<<10, time.Hour, 50*time.Millisecond)
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), path+" did not end within 50ms") {
				t.Errorf("after %q: %v", written, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("after %q it is read without end", written)
		}
	}
}

func TestAPipeOfTheShellIsRead(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		_, _ = w.WriteString("key")
		w.Close()
	}()
	raw, err := readSmall(fmt.Sprintf("/dev/fd/%d", r.Fd()), 1<<10)
	if string(raw) != "key" {
		t.Errorf("%q, %v", raw, err)
	}
}
