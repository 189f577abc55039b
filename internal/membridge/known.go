package membridge

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// agentsSend lists the operations whose unknown fields are ignored, because agents of the earlier
// implementation report more than is kept here. Every other request that changes something is
// refused if it has an unknown field: a misspelt one may be a restriction.
var agentsSend = map[string]bool{
	"/agent/heartbeat":         true,
	"/agents":                  true,
	"/agents/{name}/heartbeat": true,
}

// NoFields is the body of a request that needs none. It is exported because huma ignores unexported
// embedded structs.
type NoFields struct {
	Body *struct{} `required:"false"`
}

// refuseUnknown makes the schema of a body, and those within it, refuse unknown properties.
func (s *Server) refuseUnknown(schema *huma.Schema) {
	if schema.Ref != "" {
		schema = s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	if schema.Type != huma.TypeObject {
		return
	}
	schema.AdditionalProperties = false
	for _, p := range schema.Properties {
		s.refuseUnknown(p)
	}
}

// knownParameters refuses query parameters that an operation does not have.
func (s *Server) knownParameters(ctx huma.Context, next func(huma.Context)) {
	address := ctx.URL()
	for name := range address.Query() {
		if !slices.ContainsFunc(ctx.Operation().Parameters, func(p *huma.Param) bool { return p.In == "query" && p.Name == name }) {
			_ = huma.WriteErr(s.api, ctx, http.StatusBadRequest, "This request has no such query parameter", &huma.ErrorDetail{Message: "is not a parameter of this request", Location: "query." + name})
			return
		}
	}
	next(ctx)
}
