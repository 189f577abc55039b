package blobtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
)

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

func put(t *testing.T, b blob.Blobs, key, content string) string {
	t.Helper()
	url, err := b.Put(t.Context(), key, strings.NewReader(content), int64(len(content)), sum(content))
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return url
}

func read(t *testing.T, b blob.Blobs, url string) string {
	t.Helper()
	r, err := b.Open(t.Context(), url)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %s: %v", url, err)
	}
	return string(content)
}

func wantContent(t *testing.T, b blob.Blobs, url, want string) {
	t.Helper()
	if got := read(t, b, url); got != want {
		t.Fatalf("content of %s has %d bytes, not the %d that were put", url, len(got), len(want))
	}
}

// wantNothing checks that key has no content.
func wantNothing(t *testing.T, b blob.Blobs, key string) {
	t.Helper()
	url := put(t, b, key, "probe")
	if err := b.Delete(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	wantDeleted(t, b, url)
}

func wantDeleted(t *testing.T, b blob.Blobs, url string) {
	t.Helper()
	r, err := b.Open(t.Context(), url)
	if err == nil {
		r.Close()
		t.Fatalf("%s exists", url)
	}
	if bloom.KindOf(err) != bloom.KindNotFound {
		t.Fatalf("open of deleted content: %v, want not found", err)
	}
}

func refuse(t *testing.T, b blob.Blobs, key string, content io.Reader, size int64, digest string) {
	t.Helper()
	url, err := b.Put(t.Context(), key, content, size, digest)
	if err == nil {
		t.Fatalf("put succeeded: %s", url)
	}
	if broken := errors.Is(err, errBroken); broken == errors.Is(err, blob.ErrMismatch) || errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("the refusal is %v", err)
	}
}
