package httpapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// openAPITools returns the folder with the pinned linter, generator and compiler, which are
// installed once, into .tools.
func openAPITools(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("npm is needed to lint the API's description")
		}
		t.Skip("npm is not installed")
	}
	from := filepath.Join("..", "..", "tools", "openapi")
	to, err := filepath.Abs(filepath.Join("..", "..", ".tools", "openapi"))
	must(t, err)
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	must(t, err)
	stamp := filepath.Join(to, "installed-lock.json")
	if had, err := os.ReadFile(stamp); err == nil && bytes.Equal(had, lock) {
		return to
	}
	must(t, os.MkdirAll(to, 0o755))
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		copyFile(t, filepath.Join(from, name), filepath.Join(to, name))
	}
	command(t, to, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	must(t, os.WriteFile(stamp, lock, 0o644))
	return to
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, raw, 0o644))
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func TestTheDescriptionIsCleanAndAClientOfItCompiles(t *testing.T) {
	t.Parallel()
	tools := openAPITools(t)
	dir, err := os.MkdirTemp(tools, "check-") // below the installed modules, which node finds in parent folders
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"client.ts", "tsconfig.json", "redocly.yaml"} {
		copyFile(t, filepath.Join("..", "..", "tools", "openapi", name), filepath.Join(dir, name))
	}
	must(t, os.WriteFile(filepath.Join(dir, "openapi.json"), httpapi.OpenAPI("1.2.3"), 0o644))
	bin := filepath.Join(tools, "node_modules", ".bin")
	command(t, dir, filepath.Join(bin, "redocly"), "lint", "openapi.json", "--config", "redocly.yaml")
	command(t, dir, filepath.Join(bin, "openapi-typescript"), "openapi.json", "-o", "api.d.ts")
	command(t, dir, filepath.Join(bin, "tsc"), "-p", ".")
}

func TestEveryOperationIsDescribedWithExamples(t *testing.T) {
	t.Parallel()
	type media struct {
		Schema  json.RawMessage `json:"schema"`
		Example json.RawMessage `json:"example"`
	}
	type content struct {
		Content map[string]media `json:"content"`
	}
	var d struct {
		Info    struct{ Version string }
		Servers []struct{ URL string }
		Tags    []struct{ Name, Description string }
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Description string
			Tags        []string
			Parameters  []struct{ Name, Description string }
			RequestBody *content           `json:"requestBody"`
			Responses   map[string]content `json:"responses"`
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Default json.RawMessage }
			}
		}
	}
	must(t, json.Unmarshal(httpapi.OpenAPI("1.2.3"), &d))
	if d.Info.Version != "1.2.3" || len(d.Servers) != 1 || d.Tags[0].Name != "Tasks" {
		t.Errorf("%+v %+v %+v", d.Info, d.Servers, d.Tags)
	}
	known := map[string]bool{}
	for _, tag := range d.Tags {
		known[tag.Name] = tag.Description != ""
	}
	for path, item := range d.Paths {
		for _, op := range item {
			if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 || !known[op.Tags[0]] {
				t.Errorf("%s: summary %q, description %q, tags %v", op.OperationID, op.Summary, op.Description, op.Tags)
			}
			for _, p := range op.Parameters {
				if p.Description == "" {
					t.Errorf("%s: parameter %s is not described", op.OperationID, p.Name)
				}
			}
			if op.RequestBody != nil {
				for kind, m := range op.RequestBody.Content {
					if len(m.Example) == 0 {
						t.Errorf("%s: no example of a body as %s", op.OperationID, kind)
					}
				}
			}
			if op.Responses["4XX"].Content == nil {
				t.Errorf("%s: no failure is described (%s)", op.OperationID, path)
			}
		}
	}
	stream := d.Paths["/api/runtime/llm-tasks/{id}/events"]["get"].Responses["200"].Content
	if !strings.Contains(string(stream["text/event-stream"].Schema), "/Event") || !strings.Contains(string(stream["application/x-ndjson"].Schema), "/Event") {
		t.Errorf("the stream is described as %v", stream)
	}
	for _, path := range []string{"transcript", "workspace", "artifacts"} {
		if op := d.Paths["/api/runtime/llm-tasks/{id}/"+path]["put"]; op.RequestBody == nil || op.RequestBody.Content["application/octet-stream"].Schema == nil {
			t.Errorf("PUT …/%s is described without its body", path)
		}
	}
	for _, path := range []string{"/health", "/healthz", "/readyz", "/api/runtime/health"} {
		if got := d.Paths[path]["get"].Responses["503"].Content["application/json"].Schema; !strings.Contains(string(got), "/Health\"") {
			t.Errorf("%s: 503 is described as %s", path, got)
		}
	}
	for _, path := range []string{"verify", "move"} {
		answers := d.Paths["/api/runtime/artifacts/"+path]["post"].Responses["200"].Content
		if lines := answers["application/x-ndjson"]; len(answers) != 1 || !strings.Contains(string(lines.Schema), "/ContentLine") || lines.Example == nil {
			t.Errorf("POST …/artifacts/%s is described as %v", path, answers)
		}
	}
	if _, there := d.Paths["/api/runtime/artifacts/{id}/content"]["get"].Responses["307"]; !there {
		t.Error("the redirect of an artifact's content is not described")
	}
	for name, s := range d.Components.Schemas {
		for field, p := range s.Properties {
			if p.Default != nil {
				t.Errorf("%s.%s has a default, which generators take for required", name, field)
			}
		}
	}
}
