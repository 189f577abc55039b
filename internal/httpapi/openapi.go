package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
)

// Descriptions and examples by operation id. In an answer, the name of a sample is
// replaced by it.
//
//go:embed operations.json
var operationsFile []byte

//go:embed samples.json
var samplesFile []byte

// operationText is one entry of operations.json.
type operationText struct {
	Description string `json:"description"`
	Body        any    `json:"body"`
	Answer      any    `json:"answer"`
}

// tags group the operations, in the order in which they are shown.
var tags = []*huma.Tag{
	{Name: "Tasks", Description: "Post tasks, follow them, and steer them."},
	{Name: "Leases", Description: "Calls of workers under a lease."},
	{Name: "Workers", Description: "The nodes that run tasks."},
	{Name: "Records", Description: "Results of tasks: artifacts, contexts and the audit log."},
	{Name: "Access", Description: "Keys with roles, and the sessions of browsers."},
	{Name: "Membridge", Description: "The control plane, through this server and with its key."},
	{Name: "System", Description: "Health, settings and counts."},
}

var parameterTexts = map[string]string{
	"id": "The task's, worker's, artifact's, key's or session's id", "cid": "The project's canonical id",
	"task_id": "Only of this task", "entity_id": "Only of this task, worker or setting", "action": "Only this action, for example task_created",
	"status": "Only of this status", "context_id": "Only of this context", "agent_slug": "Only of this agent", "worker_id": "Only of this worker", "error_class": "Only tasks whose last attempt failed with this class",
}

// completeOpenAPI adds descriptions and examples. It panics if an operation has no
// entry in operations.json.
func (s *Server) completeOpenAPI() {
	doc := s.api.OpenAPI()
	doc.Servers = []*huma.Server{{URL: "/", Description: "This server"}}
	doc.Info.License = &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"}
	doc.Tags = tags
	texts, samples := map[string]operationText{}, map[string]any{}
	mustUnmarshal(operationsFile, &texts)
	mustUnmarshal(samplesFile, &samples)
	s.describeStreams()
	s.describeHealth()
	s.splitInputs()
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				text, there := texts[op.OperationID]
				if !there {
					panic(fmt.Sprintf("operation %q has no entry in operations.json", op.OperationID))
				}
				describeOperation(op, text, samples)
			}
		}
	}
	for name, schema := range doc.Components.Schemas.Map() {
		for _, p := range schema.Properties {
			describeDefault(p)
		}
		if t := doc.Components.Schemas.TypeFromRef(refTo + name); t != nil && t.Kind() == reflect.Struct {
			describeEntries(schema, t)
		}
	}
}

func mustUnmarshal(raw []byte, v any) {
	if err := json.Unmarshal(raw, v); err != nil {
		panic(err) // embedded
	}
}

func describeOperation(op *huma.Operation, text operationText, samples map[string]any) {
	op.Description = text.Description
	for i, tag := range op.Tags {
		op.Tags[i] = strings.ToUpper(tag[:1]) + tag[1:]
	}
	for _, p := range op.Parameters {
		if p.Description == "" {
			p.Description = parameterTexts[p.Name]
		}
	}
	if failure := op.Responses["default"]; failure != nil {
		delete(op.Responses, "default")
		op.Responses["4XX"] = &huma.Response{Description: "The request is refused", Content: failure.Content}
		op.Responses["5XX"] = &huma.Response{Description: "The server, or what is behind it, cannot answer", Content: failure.Content}
	}
	if op.RequestBody != nil && text.Body != nil {
		op.RequestBody.Content["application/json"].Example = text.Body
	}
	for status, answer := range op.Responses {
		for kind, media := range answer.Content {
			if (kind == "application/json" || kind == ndjson) && media.Example == nil && status[0] == '2' && text.Answer != nil {
				media.Example = sampled(text.Answer, samples)
			}
		}
	}
}

// sampled replaces names of samples in v by the samples.
func sampled(v any, samples map[string]any) any {
	switch v := v.(type) {
	case string:
		if sample, there := samples[v]; there {
			return sample
		}
	case []any:
		for i := range v {
			v[i] = sampled(v[i], samples)
		}
	case map[string]any:
		for k := range v {
			v[k] = sampled(v[k], samples)
		}
	}
	return v
}

// describeDefault moves a default into the description. Code generators take a field
// with a default for a required one.
func describeDefault(p *huma.Schema) {
	if p.Default == nil {
		return
	}
	raw, err := json.Marshal(p.Default)
	if err != nil {
		panic(err)
	}
	p.Description = strings.TrimPrefix(p.Description+". Default: "+string(raw), ". ")
	p.Default = nil
}

// describeEntries adds the limits of list entries, for which huma has no tags.
func describeEntries(schema *huma.Schema, t reflect.Type) {
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		most, err := strconv.Atoi(tag.Get("itemMaxLength"))
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		items := schema.Properties[name].Items
		items.MaxLength = &most
		if least, err := strconv.Atoi(tag.Get("itemMinLength")); err == nil {
			items.MinLength = &least
		}
	}
}

// splitInputs gives types that are used both in bodies and in answers a schema for
// bodies: there, fields with a default are optional; in answers they are always
// present.
func (s *Server) splitInputs() {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for name, always := range map[string][]string{
		"Policy": {"budget", "ordered", "timeout_sec"}, "Capabilities": {"claude_cli", "labels", "max_concurrency"}, "Metrics": {"duration_ms"},
	} {
		input := *schemas[name]
		input.Required = nil
		schemas[name+"Input"] = &input
		schemas[name].Required = always
		for _, body := range []string{"TaskSpec", "WorkerSpec", "Completion", "SuspendSpec"} {
			for _, p := range schemas[body].Properties {
				if p.Ref == refTo+name {
					p.Ref += "Input"
				}
			}
		}
	}
}

// describeHealth documents the answer 503 of health.
func (s *Server) describeHealth() {
	paths := s.api.OpenAPI().Paths
	for _, path := range healthPaths {
		op := paths[path].Get
		op.Responses["503"] = &huma.Response{Description: "The store does not answer", Content: map[string]*huma.MediaType{
			"application/json": {Schema: op.Responses["200"].Content["application/json"].Schema},
		}}
	}
}

const refTo = "#/components/schemas/"

// describeStreams documents the media types of streams, which huma does not know.
func (s *Server) describeStreams() {
	paths := s.api.OpenAPI().Paths
	event := &huma.MediaType{Schema: s.schema(reflect.TypeFor[bloom.Event]()), Example: map[string]any{
		"seq": 3, "type": "text", "at": int64(1795307427310), "epoch": 1, "data": map[string]any{"text": "Reading the changes."},
	}}
	task := paths[tasksPath+"/{id}/events"]
	task.Get.Responses["200"] = &huma.Response{
		Description: "Events as they happen; the schema is that of one event: a frame's data, or a line",
		Content:     map[string]*huma.MediaType{eventStream: event, ndjson: event},
	}
	task.Get.Responses["204"] = &huma.Response{Description: "The stream has ended, and there are no more events"}
	task.Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{ndjson: {
		Schema: s.schema(reflect.TypeFor[bloom.WorkerEvent]()), Example: map[string]any{"seq": 1, "type": "text", "at": int64(1795307427310), "data": map[string]any{"text": "Reading the changes."}},
	}}}
	paths[runtimePath+"/events"].Get.Responses["200"] = &huma.Response{
		Description: "Changes as they happen; the schema is that of a frame's data",
		Content: map[string]*huma.MediaType{eventStream: {
			Schema: s.schema(reflect.TypeFor[bloom.Change]()), Example: map[string]any{"kind": "task", "task_id": "01990a3e-7c1a-7f00-8a10-000000000001", "status": "running"},
		}},
	}
	paths[tasksPath+"/{id}/attachments/{name}"].Get.Responses["200"] = &huma.Response{
		Description: "The content, as its own media type",
		Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Example: "%PDF-1.7"}},
	}
	paths[artifactsPath+"/{id}/content"].Get.Responses["200"] = &huma.Response{
		Description: "The content, as its own media type",
		Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}, Example: "All tests pass."}},
	}
	paths[artifactsPath+"/archive"].Get.Responses["200"] = &huma.Response{
		Description: "The archive",
		Content:     map[string]*huma.MediaType{"application/zip": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}
	paths[artifactsPath+"/{id}/content"].Get.Responses["307"] = &huma.Response{
		Description: "With redirect=1: the content is at the address in Location",
		Headers:     map[string]*huma.Param{"Location": {Description: "Works for 15 minutes without a key", Schema: &huma.Schema{Type: huma.TypeString}}},
	}
}
