package objects_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Requests to a storage that accepts connections and is silent, or sends a byte now and then, time
// out, before its response and within it.
func TestASilentStorageTimesOut(t *testing.T) {
	t.Parallel()
	content := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("ETag", `"x"`)
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
	}
	for name, begin := range map[string]func(w http.ResponseWriter){
		"before the answer":  func(http.ResponseWriter) {},
		"within the content": func(w http.ResponseWriter) { content(w, "begun") },
		"byte by byte": func(w http.ResponseWriter) {
			content(w, "x")
			for range time.Tick(20 * time.Millisecond) { // a storage that is silent for so long is not stalled
				if _, err := io.WriteString(w, "x"); err != nil { // everything was sent, or the client is gone
					return
				}
				w.(http.Flusher).Flush()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				begin(w)
				<-release
			}))
			defer server.Close()
			defer close(release)
			bucket, err := objects.Open(objects.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), AccessKey: "key", SecretKey: "secret", Bucket: "bucket", Region: "us-east-1",
				Stall: 100 * time.Millisecond, Tries: 1})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				content, _, err := bucket.Open(t.Context(), "k")
				if err == nil {
					_, err = io.Copy(io.Discard, content)
					_ = content.Close()
				}
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, objects.ErrStalled) {
					t.Errorf("%v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it is waited for without end")
			}
		})
	}
}
