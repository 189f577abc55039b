package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
)

const (
	runtimePath   = "/api/runtime"
	membridgePath = "/api/membridge"
)

// route is everything about a route except its handler.
type route struct {
	method, path string
	id           string // operationId in OpenAPI
	summary      string
	tag          string
	status       int    // of a success; 0 means 200
	body         any    // a value of the body's type, for the description; nil: none
	raw          bool   // the body is binary, for the description
	lines        bool   // the body is lines of JSON
	small        bool   // GET: the response has few KB, or is membridge's; other GETs wait for memory
	unpaged      bool   // GET: without limit and cursor the response has all rows
	large        bool   // another method: the response may have a long text, or the work takes as much
	answer       any    // a value of the type that a streamed response writes; nil: none
	media        string // of that response; "" means application/json
}

// reply is a response whose status may vary.
type reply[T any] struct {
	Status int
	Body   T
}

// page is one page of a list.
type page[T any] struct {
	Link string `header:"Link" doc:"The address of the next page, rel=\"next\""`
	Body []T    `nullable:"false"`
}

type none struct{}

// handle registers a route. Handlers decode their bodies with decode: huma parses
// every body twice, refuses nulls and quotes the input in errors. Its schemas are
// still used for the description.
func handle[I, O any](s *Server, rt route, h func(ctx context.Context, c *call, in *I) (*O, error)) {
	policy := s.mux.Policy(rt.method + " " + rt.path)
	op := huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.summary, Tags: []string{rt.tag},
		DefaultStatus: rt.status, SkipValidateParams: true,
		Responses: map[string]*huma.Response{"default": {Description: "Failure", Content: map[string]*huma.MediaType{
			"application/json": {Schema: s.schema(reflect.TypeFor[Failure]())},
		}}},
		Security:   []map[string][]string{{"key": {}}, {"bearer": {}}, {"session": {}}},
		Extensions: map[string]any{"x-roles": policy.Roles()},
	}
	if policy.Open() {
		op.Security = []map[string][]string{{}}
	}
	known := parameters(reflect.TypeFor[I]())
	streams := reflect.TypeFor[O]() == reflect.TypeFor[huma.StreamResponse]() // they reserve what they need
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		if rt.method != http.MethodGet {
			if err := s.strictly(rt, c, known); err != nil {
				return nil, s.failure(ctx, c.id, err)
			}
		}
		if rt.large || rt.method == http.MethodGet && !rt.small && !streams {
			n := int64(answerBytes)
			if q := c.r.URL.Query(); rt.unpaged && !q.Has("limit") && !q.Has("cursor") {
				n *= unpagedAnswers
			}
			if err := s.reserve(ctx, c, n); err != nil {
				return nil, s.failure(ctx, c.id, err)
			}
		}
		out, err := h(ctx, c, in)
		if err != nil {
			return nil, s.failure(ctx, c.id, err)
		}
		return out, nil
	})
	if rt.body != nil {
		s.describeBody(rt)
	}
	if rt.raw {
		s.api.OpenAPI().Paths[rt.path].Put.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Example: "# Report\n"},
		}}
	}
	if rt.answer != nil {
		item := s.api.OpenAPI().Paths[rt.path]
		item.Post.Responses["200"].Content = map[string]*huma.MediaType{cmp.Or(rt.media, "application/json"): {Schema: s.schema(reflect.TypeOf(rt.answer))}}
	}
}

// lasting defers write until the handler has returned. A waiting request keeps the
// stack of its callers, and huma's part makes it 16 KB instead of 8 for every poll
// and stream.
func lasting(c *call, write func()) (*huma.StreamResponse, error) {
	c.rest = write
	return &huma.StreamResponse{Body: func(huma.Context) {}}, nil
}

func (s *Server) schema(t reflect.Type) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}

// describeBody adds the body to the operation's description afterwards, so that huma
// does not read it.
func (s *Server) describeBody(rt route) {
	item := s.api.OpenAPI().Paths[rt.path]
	op := item.Post
	switch rt.method {
	case http.MethodPut:
		op = item.Put
	case http.MethodPatch:
		op = item.Patch
	}
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
		"application/json": {Schema: s.schema(reflect.TypeOf(rt.body))},
	}}
}

// number is a query parameter that is described as an integer but parsed by us, for
// our own error messages.
type number string

// Schema implements huma.SchemaProvider.
func (number) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeInteger} }

// Paging is the parameters of every list. It is exported because huma reads only
// exported embedded types.
type Paging struct {
	Limit  number `query:"limit" doc:"Entries per page, 1 to 1000; absent: 100"`
	Cursor string `query:"cursor" doc:"From the Link header of the previous page"`
}

func (p Paging) page() (bloom.Page, error) {
	cursor, err := bloom.ParseCursor(p.Cursor)
	if err != nil {
		return bloom.Page{}, err
	}
	limit := bloom.DefaultPageSize
	if p.Limit != "" {
		limit, err = strconv.Atoi(string(p.Limit))
		if err != nil || limit < 1 {
			return bloom.Page{}, bloom.Invalid("The limit is invalid", bloom.FieldError{Field: "limit", Message: "must be a number from 1 to 1000"})
		}
		limit = min(limit, bloom.MaxPageSize)
	}
	return bloom.Page{Limit: limit, Cursor: cursor}, nil
}

// whole removes the limit for clients that send neither limit nor cursor: they do not
// use paging and get everything that is unfinished.
func (p Paging) whole(page bloom.Page) bloom.Page {
	if p.Limit == "" && p.Cursor == "" {
		page.Limit = 0
	}
	return page
}

// TextPaging is the parameters of lists of rows with long texts.
type TextPaging struct {
	Paging
	Preview number `query:"preview" doc:"Longest text in a row, in bytes, 1 to 1048576; longer ones are truncated and marked. Absent: texts are truncated only if the page would be too large"`
}

func (p TextPaging) page() (bloom.Page, error) {
	page, err := p.Paging.page()
	if err != nil || p.Preview == "" {
		return page, err
	}
	page.TextBytes, err = strconv.Atoi(string(p.Preview))
	if err != nil || page.TextBytes < 1 || page.TextBytes > 1<<20 {
		return page, bloom.Invalid("The preview is invalid", bloom.FieldError{Field: "preview", Message: "must be a number from 1 to 1048576"})
	}
	return page, nil
}

// paged returns a page with the address of the next one.
func paged[T any](c *call, list []T, next bloom.Cursor) *page[T] {
	if list == nil {
		list = []T{}
	}
	return &page[T]{Link: nextLink(c.r, next), Body: list}
}

func nextLink(r *http.Request, next bloom.Cursor) string {
	if next == (bloom.Cursor{}) {
		return ""
	}
	return nextPage(r, next.String())
}

// nextPage returns the Link header of a page that another one follows.
func nextPage(r *http.Request, cursor string) string {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q = url.Values{}
	}
	q.Set("cursor", cursor)
	return "<" + r.URL.EscapedPath() + "?" + q.Encode() + `>; rel="next"`
}

// pathID is the id in the path.
type pathID struct {
	ID string `path:"id"`
}

// noID is an id that nothing has.
var noID = uuid.Nil.String()

// cleanID replaces an id in the path that a database might refuse: no task and no artifact has it.
func cleanID(r *http.Request) {
	id := r.PathValue("id")
	_, path, _ := strings.Cut(r.Pattern, " ")
	switch {
	case id == "":
	case !storable.IsID(id) && (strings.HasPrefix(path, tasksPath) || strings.HasPrefix(path, artifactsPath)):
		r.SetPathValue("id", noID)
	default:
		r.SetPathValue("id", storable.Text(id))
	}
}

// checkFilter refuses a value that no entry can have.
func checkFilter[T ~string](field string, v T, allowed ...T) error {
	if v == "" {
		return nil
	}
	if message := input.OneOf(v, allowed...); message != "" {
		return input.Wrong(bloom.FieldError{Field: field, Message: message})
	}
	return nil
}

// accepts reports whether the Accept header names the media type.
func accepts(header, media string) bool {
	return strings.Contains(strings.ToLower(header), media)
}
