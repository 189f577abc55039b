package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/client"
)

// The server is gone for good once the stream has ended.
func TestAResultThatCannotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	api, err := client.New(gone.URL, client.Options{Retry: client.Retry{Tries: 2, Base: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	inv := &invocation{System: System{Out: &said, Err: &said}, ctx: t.Context(), cut: t.Context()}
	err = (&taskRunCmd{}).finish(inv, api, "the-task", newView(inv, &said, false, false))
	if !client.IsUnreachable(err) || !strings.Contains(said.String(), "read it later:  bloom task show the-task") {
		t.Errorf("%v: %s", err, &said)
	}
}
