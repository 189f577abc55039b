package standin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

func ask(t *testing.T, server *httptest.Server, path, body string) (int, string) {
	t.Helper()
	response, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestTheStreamHasTheAPIsEventsInOrder(t *testing.T) {
	t.Parallel()
	model := standin.New(standin.Sequence(standin.Tool("hi", "Bash", map[string]any{"command": "true"})))
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	status, stream := ask(t, server, "/v1/messages?beta=true", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, stream)
	}
	var kinds []string
	for line := range strings.Lines(stream) {
		if kind, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	want := "message_start content_block_start content_block_delta content_block_stop " +
		"content_block_start content_block_delta content_block_stop message_delta message_stop"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	if !strings.Contains(stream, `"stop_reason":"tool_use"`) {
		t.Error("the stream does not stop for tool use")
	}
	if got := model.Requests(); len(got) != 1 || got[0].LastUser() != "hello" {
		t.Errorf("recorded %+v", got)
	}
}

func TestRepliesComeInOrderAndTheLastRepeats(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(standin.New(standin.Sequence(standin.Error(529, "overloaded_error", "busy"), standin.Reply{Text: "ok"})))
	t.Cleanup(server.Close)
	for i, want := range []int{529, 200, 200} {
		status, body := ask(t, server, "/v1/messages", `{"model":"m","messages":[]}`)
		if status != want || !json.Valid([]byte(body)) {
			t.Errorf("request %d: %d %s, want %d", i, status, body, want)
		}
	}
}

func TestEveryCannedAnswerSaysThatItIsCanned(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(standin.New(standin.Canned))
	t.Cleanup(server.Close)
	for _, body := range []string{
		`{"model":"m","messages":[]}`,
		`{"model":"m","system":"answer in JSON, desired_format","tools":[{"name":"Write"}],"messages":[]}`,
		`{"model":"m","system":"working directory: /w","tools":[{"name":"Write"}],"messages":[{"role":"user","content":"x"}]}`,
		`{"model":"m","tools":[{"name":"Write"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":"done"}]}]}`,
	} {
		if _, answer := ask(t, server, "/v1/messages", body); !strings.Contains(answer, "no model was asked") {
			t.Errorf("%s\nanswered %s", body, answer)
		}
	}
}
