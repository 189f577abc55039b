package s3_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/blobtest"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// TestInProcessStorageMeetsTheContract runs quickly: it needs no server binary.
func TestInProcessStorageMeetsTheContract(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Blobs {
		fake := gofakes3.New(s3mem.New()).Server()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Length") == "" { // the fake requires it even for an empty body
				r.Header.Set("Content-Length", strconv.FormatInt(max(0, r.ContentLength), 10))
			}
			fake.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		bucket, err := objects.Open(objects.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), AccessKey: "key", SecretKey: "secret", Bucket: "artifacts"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(bucket.Close)
		can, err := bucket.Check(t.Context())
		if err != nil || !can.Write || !can.Read || !can.Delete {
			t.Fatalf("abilities %+v, %v", can, err)
		}
		return s3.New(bucket, "")
	})
}
