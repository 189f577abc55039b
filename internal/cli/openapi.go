package cli

import (
	"bytes"
	"encoding/json"

	"github.com/bloom-runtime/bloom/internal/app"
)

// openapiCmd prints what a server of this version serves at GET /openapi.json, to generate a client
// without a running server.
type openapiCmd struct{}

func (c *openapiCmd) Run(inv *invocation) error {
	var b bytes.Buffer
	if err := json.Indent(&b, app.OpenAPI(Version), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := inv.Out.Write(b.Bytes())
	return err
}
