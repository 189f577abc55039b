// Package blobtest is the conformance suite for implementations of blob.Blobs.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
)

// Run tests that the blob stores that open returns meet the contract of blob.Blobs. Each call of
// open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) blob.Blobs) {
	for name, test := range map[string]func(*testing.T, blob.Blobs){
		"stored content is read back":                      roundTrip,
		"a second put replaces all content":                replace,
		"content with a wrong digest leaves nothing":       wrongDigest,
		"content that is too short leaves nothing":         tooShort,
		"content that is too long leaves nothing":          tooLong,
		"a refused replacement keeps the previous content": refusedReplacement,
		"deleted content is not found":                     deleted,
		"deleting twice is no error":                       deleteTwice,
		"a failing reader leaves nothing":                  failingReader,
		"concurrent puts do not interfere":                 concurrent,
		"keys that leave their folder are refused":         hostileKeys,
		"a URL of another store is refused":                foreignURL,
		"a cancelled put has no effect":                    cancelled,
		"ranges are read":                                  ranges,
		"everything is listed":                             list,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func roundTrip(t *testing.T, b blob.Blobs) {
	for _, content := range []string{"", "short", "with \x00 and \xff", strings.Repeat("long ", 1<<20)} {
		wantContent(t, b, put(t, b, "artifacts/task/one", content), content)
	}
}

func replace(t *testing.T, b blob.Blobs) {
	put(t, b, "artifacts/t/a", strings.Repeat("first", 1000))
	wantContent(t, b, put(t, b, "artifacts/t/a", "second"), "second")
}

func wrongDigest(t *testing.T, b blob.Blobs) {
	refuse(t, b, "artifacts/t/a", strings.NewReader("received!"), 9, sum("expected!"))
	wantNothing(t, b, "artifacts/t/a")
}

func tooShort(t *testing.T, b blob.Blobs) {
	refuse(t, b, "artifacts/t/a", strings.NewReader("cut"), 9, sum("cut short"))
	wantNothing(t, b, "artifacts/t/a")
}

func tooLong(t *testing.T, b blob.Blobs) {
	refuse(t, b, "artifacts/t/a", strings.NewReader("more than stated"), 4, sum("more"))
	wantNothing(t, b, "artifacts/t/a")
}

func refusedReplacement(t *testing.T, b blob.Blobs) {
	url := put(t, b, "artifacts/t/a", "good")
	refuse(t, b, "artifacts/t/a", strings.NewReader("bad"), 3, sum("good"))
	wantContent(t, b, url, "good")
}

func deleted(t *testing.T, b blob.Blobs) {
	url := put(t, b, "artifacts/t/a", "x")
	if err := b.Delete(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	wantDeleted(t, b, url)
}

func deleteTwice(t *testing.T, b blob.Blobs) {
	url := put(t, b, "artifacts/t/a", "x")
	for range 2 {
		if err := b.Delete(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
}

func failingReader(t *testing.T, b blob.Blobs) {
	broken := io.MultiReader(strings.NewReader("begin"), errReader{})
	refuse(t, b, "artifacts/t/a", broken, 10, sum("beginnning"))
	wantNothing(t, b, "artifacts/t/a")
}

type errReader struct{}

var errBroken = errors.New("connection lost")

func (errReader) Read([]byte) (int, error) { return 0, errBroken }

func concurrent(t *testing.T, b blob.Blobs) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			content := bytes.Repeat([]byte{byte('a' + i)}, 10_000)
			s := sha256.Sum256(content)
			url, err := b.Put(t.Context(), fmt.Sprintf("artifacts/t%d/a", i%4), bytes.NewReader(content), int64(len(content)), hex.EncodeToString(s[:]))
			if err != nil {
				t.Errorf("put: %v", err)
				return
			}
			r, err := b.Open(t.Context(), url)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err != nil || len(got) != len(content) || bytes.Count(got, got[:1]) != len(got) {
				t.Errorf("mixed content of %d bytes (%v)", len(got), err)
			}
		})
	}
	wg.Wait()
}

func hostileKeys(t *testing.T, b blob.Blobs) {
	for _, key := range []string{"", ".", "..", "../out", "/etc/out", "a/../../out", "a//b", "a/./b", "a\x00b", `a\..\b`} {
		if _, err := b.Put(t.Context(), key, strings.NewReader("x"), 1, sum("x")); err == nil {
			t.Errorf("key %q was accepted", key)
		}
	}
}

func foreignURL(t *testing.T, b blob.Blobs) {
	for _, url := range []string{"", "elsewhere://a/b", "file:../../etc/passwd", "file:/etc/passwd"} {
		if r, err := b.Open(t.Context(), url); err == nil {
			r.Close()
			t.Errorf("%q was opened", url)
		}
	}
	const key = "artifacts/t/a"
	own := put(t, b, key, "x")
	if got, size, err := b.Stat(t.Context(), own); got != key || size != 1 || err != nil {
		t.Errorf("%s is %q with %d bytes (%v)", own, got, size, err)
	}
	if _, _, err := b.Stat(t.Context(), own+"b"); bloom.KindOf(err) != bloom.KindNotFound {
		t.Errorf("missing content: %v, want not found", err)
	}
	for _, url := range []string{"s3://evil/" + key, "minio://evil/" + key, "x" + own, "elsewhere://" + key, "file:../" + key, "file:/" + key, ""} {
		if got, _, err := b.Stat(t.Context(), url); got != "" || bloom.KindOf(err) != bloom.KindNotFound {
			t.Errorf("Stat of %q returns the key %q (%v)", url, got, err)
		}
	}
}

func cancelled(t *testing.T, b blob.Blobs) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Put(ctx, "artifacts/t/a", strings.NewReader("x"), 1, sum("x")); err == nil {
		t.Fatal("put succeeded")
	}
	wantNothing(t, b, "artifacts/t/a")
}

func ranges(t *testing.T, b blob.Blobs) {
	const content = "0123456789"
	url := put(t, b, "artifacts/t/a", content)
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, content}, {0, 4, "0123"}, {3, 4, "3456"}, {7, -1, "789"}, {9, 1, "9"}, {5, 0, ""}} {
		r, err := b.OpenRange(t.Context(), url, c.offset, c.length)
		if err != nil {
			t.Fatalf("range %d+%d: %v", c.offset, c.length, err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || string(got) != c.want {
			t.Errorf("range %d+%d is %q (%v), want %q", c.offset, c.length, got, err, c.want)
		}
	}
	if err := b.Delete(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	r, err := b.OpenRange(t.Context(), url, 3, 4)
	if err == nil {
		r.Close()
	}
	if bloom.KindOf(err) != bloom.KindNotFound {
		t.Errorf("a range of deleted content: %v, want not found", err)
	}
}

func list(t *testing.T, b blob.Blobs) {
	want := map[string]string{}
	for i := range 7 {
		key := fmt.Sprintf("artifacts/t%d/a", i)
		want[put(t, b, key, "x")] = key
	}
	want[put(t, b, "transcripts/t/a", "x")] = "transcripts/t/a"
	listed := func(day string) map[string]string {
		got := map[string]string{}
		err := b.List(t.Context(), day, func(url, key string, age time.Duration) error {
			if age < -time.Minute || age > 10*time.Minute {
				t.Errorf("%s was put %s ago", url, age)
			}
			got[url] = key
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	day := func(ago time.Duration) string { return time.Now().UTC().Add(-ago).Format("20060102") }
	if got := listed(""); !maps.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	recent := listed(day(0))
	maps.Copy(recent, listed(day(10*time.Minute))) // it may have been midnight
	if earlier := listed(day(48 * time.Hour)); !maps.Equal(recent, want) || len(earlier) > 0 {
		t.Errorf("listed %v for today and %v for the day before yesterday", recent, earlier)
	}
	stop := errors.New("enough")
	if err := b.List(t.Context(), "", func(string, string, time.Duration) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the list continues after its caller's error: %v", err)
	}
}
