package membridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

//go:embed docs.html
var docsPage []byte

// docsScript is the digest of the page's own script, the only one that may run.
var docsScript = func() string {
	_, rest, _ := bytes.Cut(docsPage, []byte("<script>"))
	script, _, _ := bytes.Cut(rest, []byte("</script>"))
	sum := sha256.Sum256(script)
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// routes builds the handler: every operation with its policy, then the pages that are not part of
// the API.
func (s *Server) routes() {
	mux := guard.NewMux(policies, s.enter)
	s.mux = mux
	s.api = humago.New(mux, apiConfig(s.cfg.Version))
	s.agentRoutes()
	s.projectRoutes()
	s.jobRoutes()
	operation(s, http.MethodGet, "/health", "Health of the control plane", s.health)
	describeErrors(s.api.OpenAPI())

	spec, err := s.api.OpenAPI().MarshalJSON()
	if err != nil {
		panic("membridge: cannot encode the API's description: " + err.Error())
	}
	mux.HandleFunc("GET /openapi.json", page("application/json", spec))
	mux.HandleFunc("GET /docs", page("text/html; charset=utf-8", docsPage))
	mux.HandleFunc("GET /ui", s.webApplication)
	mux.HandleFunc("GET /static/ui.html", s.webApplication)
	mux.HandleFunc("GET /metrics", s.metrics.handler().ServeHTTP)
	s.handler = s.middleware(mux.ServeMux)
}

func presented(r *http.Request) credentials {
	key := r.Header.Get(AdminHeader)
	if key == "" {
		key = bearer(r.Header.Get("Authorization"))
	}
	return credentials{adminKey: key, agentKey: r.Header.Get(AgentHeader), local: guard.Local(r)}
}

func apiConfig(version string) huma.Config {
	c := huma.DefaultConfig("Membridge", version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // served by routes
	c.CreateHooks = nil                                   // no $schema in bodies
	json := huma.DefaultJSONFormat
	json.Unmarshal = unmarshal
	c.Formats = map[string]huma.Format{"application/json": json, "json": json}
	c.AllowAdditionalPropertiesByDefault = true
	c.Transformers = []huma.Transformer{reshape}
	c.Info.Description = "Control plane of BLOOM Runtime: agents, projects, leadership, sync. Times are Unix seconds."
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"admin": {Type: "apiKey", In: "header", Name: AdminHeader},
		"agent": {Type: "apiKey", In: "header", Name: AgentHeader},
		"token": {Type: "apiKey", In: "header", Name: TokenHeader},
	}
	return c
}

// operation registers a route with its policy.
func operation[I, O any](s *Server, method, path, summary string, handle func(context.Context, *I) (*O, error), change ...func(*huma.Operation)) {
	op := huma.Operation{Method: method, Path: path, OperationID: huma.GenerateOperationID(method, path, (*O)(nil)), Summary: summary, MaxBodyBytes: maxBody,
		Security: s.mux.Policy(method + " " + path).security(s.auth.tokens)}
	for _, c := range change {
		c(&op)
	}
	if method != http.MethodGet {
		op.Middlewares = append(op.Middlewares, s.knownParameters)
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.refuse(ctx, err)
		}
		return out, nil
	})
	item := s.api.OpenAPI().Paths[path]
	registered := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodDelete: item.Delete}[method]
	if registered.RequestBody != nil && !agentsSend[path] {
		s.refuseUnknown(registered.RequestBody.Content["application/json"].Schema)
	}
}

// enter wraps every route: it identifies the caller and checks the limits and the route's policy
// before it reads anything of the request.
func (s *Server) enter(need access, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := s.auth.caller(r.Context(), presented(r))
		if who != callerUnknown {
			s.cfg.Known(r)
		}
		refusal := s.limited(w, r, who)
		if refusal == nil {
			refusal = s.auth.check(need, who)
		}
		var shown registry.Proof
		if refusal == nil && need != accessOpen {
			shown, refusal = s.auth.proof(who, r.Header.Get(TokenHeader))
		}
		if refusal != nil {
			refusal.write(w)
			return
		}
		if r.ContentLength != 0 {
			body, refusal := s.admit(r, who)
			if refusal != nil {
				refusal.write(w)
				return
			}
			defer body.leave()
			r.Body = body
		}
		h(w, r.WithContext(context.WithValue(context.WithValue(r.Context(), callerKey{}, who), proofKey{}, shown)))
	}
}

// Memory of the bodies that arrive at once, in bytes; agents leave a half to admins.
const (
	bodiesOfAll  = 32 << 20
	bodiesOfOne  = bodiesOfAll / 2
	leastBody    = 32 << 10        // a connection takes as much
	roomForABody = 2 * time.Second // bodies must arrive within five
)

// admitted is a body that has memory until it has been read.
type admitted struct {
	io.ReadCloser
	leave func()
}

// Read implements io.Reader.
func (a *admitted) Read(b []byte) (int, error) {
	n, err := a.ReadCloser.Read(b)
	if err != nil {
		a.leave() // a heartbeat waits for commands from now on
	}
	return n, err
}

// admit waits for the memory of a request's body.
func (s *Server) admit(r *http.Request, who callerKind) (*admitted, *Problem) {
	ctx, done := context.WithTimeout(r.Context(), roomForABody)
	defer done()
	n := r.ContentLength
	if n < 0 || n > maxBody {
		n = maxBody
	}
	part, err := s.bodies.Acquire(ctx, string(who), max(n, leastBody))
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, "The server has no memory for another request now; try again shortly")
	}
	return &admitted{r.Body, sync.OnceFunc(func() { part.Shrink(0) })}, nil
}

type callerKey struct{}

type proofKey struct{}

// proof returns the caller's proof of an agent's name.
func proof(ctx context.Context) registry.Proof {
	p, _ := ctx.Value(proofKey{}).(registry.Proof)
	return p
}

// callerOf returns the kind of caller.
func callerOf(ctx context.Context) callerKind {
	who, _ := ctx.Value(callerKey{}).(callerKind)
	return who
}

// describeErrors replaces huma's description of its errors by the API's.
func describeErrors(api *huma.OpenAPI) {
	api.Components.Schemas.Map()["Problem"] = &huma.Schema{
		Type: huma.TypeObject, Required: []string{"detail"},
		Properties: map[string]*huma.Schema{"detail": {Type: huma.TypeString, Description: "One sentence for people"},
			"job_id": {Type: huma.TypeString, Description: "The sync job that failed, if any"}},
	}
	failure := &huma.Response{Description: "Error", Content: map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}}
	for _, item := range api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Delete} {
			if op == nil {
				continue
			}
			delete(op.Responses, "422")
			delete(op.Responses, "500")
			op.Responses["default"] = failure
		}
	}
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(api.Components.Schemas.Map(), name)
	}
}

func page(kind string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'; script-src 'sha256-"+docsScript+"'; frame-ancestors 'none'")
		_, _ = w.Write(body) // fails only if the client is gone
	}
}

// webApplication redirects to the runtime's web application: the earlier control plane had its own
// at these addresses.
func (s *Server) webApplication(w http.ResponseWriter, r *http.Request) {
	if address := s.runtimeFor(r.Context()); address != "" {
		http.Redirect(w, r, strings.TrimRight(address, "/")+"/", http.StatusFound)
		return
	}
	problem(http.StatusNotFound, "The web application is at the runtime, whose address is unknown here; start membridge with --runtime-url, or open the runtime's address").write(w)
}

type health struct {
	Body struct {
		Status   string `json:"status" enum:"ok"`
		Service  string `json:"service"`
		Version  string `json:"version"`
		Projects int    `json:"projects"`
		Agents   int    `json:"agents"`
	}
}

func (s *Server) health(ctx context.Context, _ *struct{}) (*health, error) {
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	h := &health{}
	h.Body.Status, h.Body.Service, h.Body.Version = "ok", "membridge-control-plane", s.cfg.Version
	h.Body.Projects, h.Body.Agents = counts.Projects, counts.Agents
	return h, nil
}
