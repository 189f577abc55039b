package objects_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// An upload of the same key that another process has just begun continues.
func TestOnlyOldUploadsAreAborted(t *testing.T) {
	t.Parallel()
	aborted := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			aborted <- r.URL.Query().Get("uploadId")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprint(w, `<ListMultipartUploadsResult><Bucket>bucket</Bucket>
			<Upload><Key>k</Key><UploadId>old</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>
			<Upload><Key>k</Key><UploadId>new</UploadId><Initiated>2026-01-02T00:00:00.000Z</Initiated></Upload>
		</ListMultipartUploadsResult>`)
	}))
	defer server.Close()
	bucket, err := objects.Open(objects.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), AccessKey: "key", SecretKey: "secret", Bucket: "bucket", Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer bucket.Close()
	if err := bucket.AbortUploads(t.Context(), "", time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	close(aborted)
	for id := range aborted {
		if id != "old" {
			t.Errorf("aborted %q", id)
		}
	}
}
