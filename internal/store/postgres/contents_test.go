package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/blobtest"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
)

func TestContentsMeetTheContract(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Blobs { return openContents(t, pgtest.Start(t)) })
}

func openContents(t *testing.T, url string) *postgres.Contents {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Contents()
}

// Content that a crashed server stored partly is never visible, and is removed when it is old.
func TestIncompleteContentIsRemoved(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	c, db := openContents(t, url), connect(t, url)
	if _, err := db.Exec(t.Context(), `INSERT INTO contents (key, size, put_at) VALUES ('artifacts/t/old', 3, 1), ('artifacts/t/new', 3, (extract(epoch FROM now()) * 1000)::bigint);
		INSERT INTO content_chunks (content_id, n, data) SELECT id, 0, 'abc' FROM contents`); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Open(t.Context(), postgres.ContentScheme+"artifacts/t/new"); bloom.KindOf(err) != bloom.KindNotFound {
		t.Error("it is seen", r, err)
	}
	if err := c.List(t.Context(), "", func(url, _ string, _ time.Duration) error { t.Error(url); return nil }); err != nil {
		t.Fatal(err)
	}
	var contents, chunks int
	if err := db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM contents), (SELECT count(*) FROM content_chunks)`).Scan(&contents, &chunks); err != nil || contents != 1 || chunks != 1 {
		t.Errorf("%d contents in %d chunks are left, %v", contents, chunks, err)
	}
}

// A reader of content that is being moved can read all of it.
func TestContentCanBeReadWhileItIsMoved(t *testing.T) {
	t.Parallel()
	c := openContents(t, pgtest.Start(t))
	content := strings.Repeat("x", 3<<20)
	url, err := c.Put(t.Context(), "artifacts/t/a", strings.NewReader(content), int64(len(content)), sumOf(content))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n != 2<<20 {
		t.Errorf("%d bytes more are read, %v", n, err)
	}
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
