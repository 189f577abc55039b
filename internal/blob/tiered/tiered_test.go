package tiered_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/tiered"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// TestASlowStorageTimesOut: a storage that accepts bytes slowly never stalls. A caller that has the
// whole content still waits for it only for a limited time.
func TestASlowStorageTimesOut(t *testing.T) {
	t.Parallel()
	fake := gofakes3.New(s3mem.New()).Server()
	var slow atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for slow.Load() && r.Method == http.MethodPut {
			if _, err := io.CopyN(io.Discard, r.Body, 16<<10); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond) // 320 KiB a second
		}
		if r.Header.Get("Content-Length") == "" {
			r.Header.Set("Content-Length", "0")
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	bucket, err := objects.Open(objects.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), AccessKey: "key", SecretKey: "secret", Bucket: "artifacts"})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := local.Open(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := tiered.New(tiered.Config{Bucket: bucket, Local: folder, Stall: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if back, err := s.Refresh(t.Context()); !back || err != nil {
		t.Fatal(back, err)
	}
	slow.Store(true)
	content := strings.Repeat("x", 16<<20) // more than fits into the buffers between them
	sum := sha256.Sum256([]byte(content))
	url, err := s.Put(t.Context(), "artifacts/t/a", strings.NewReader(content), int64(len(content)), hex.EncodeToString(sum[:]))
	if err != nil || !strings.HasPrefix(url, local.Scheme) {
		t.Errorf("put at %q, %v; want it in the folder", url, err)
	}
	if !s.Unavailable() {
		t.Error("the storage still counts as available")
	}
}
