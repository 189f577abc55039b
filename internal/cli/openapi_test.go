package cli_test

import (
	"encoding/json"
	"testing"
)

func TestOpenAPIPrintsTheDescription(t *testing.T) {
	t.Parallel()
	var d struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(newPerson(t, nil).must("openapi")), &d); err != nil {
		t.Fatal(err)
	}
	if d.OpenAPI == "" || d.Paths["/api/runtime/llm-tasks"] == nil {
		t.Errorf("openapi %q with %d paths", d.OpenAPI, len(d.Paths))
	}
}
