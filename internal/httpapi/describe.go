package httpapi

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
)

//go:embed docs
var docsFiles embed.FS

// describe serves the OpenAPI description and the page that shows it. Both are
// embedded, so that the page works offline.
func (s *Server) describe() {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own error format, which humaFailure replaces
	delete(schemas, "ErrorDetail")
	s.completeOpenAPI()
	spec, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		panic(err) // these types always encode
	}
	s.spec = spec
	s.serveStatic("/openapi.json", "application/json", spec)
	for name, at := range map[string]string{"index.html": "/docs", "docs.js": "/docs/docs.js", "docs.css": "/docs/docs.css"} {
		content, err := fs.ReadFile(docsFiles, "docs/"+name)
		if err != nil {
			panic(err) // embedded at build time
		}
		s.serveStatic(at, mediaTypes[path.Ext(name)], content)
	}
}

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
}

func (s *Server) serveStatic(at, media string, content []byte) {
	s.mux.HandleFunc(http.MethodGet+" "+at, func(w http.ResponseWriter, r *http.Request) {
		if s.web != nil && s.web.Serves(r) { // the web application has a better page
			s.web.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", media)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(content)
	})
}
