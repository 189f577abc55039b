package app

import (
	"encoding/json"

	"github.com/bloom-runtime/bloom/internal/httpapi"
)

// OpenAPI returns the runtime API's description, OpenAPI 3.1 in JSON.
func OpenAPI(version string) json.RawMessage { return httpapi.OpenAPI(version) }
