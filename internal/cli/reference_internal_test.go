package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/app"
)

// The pages of docs/reference are generated from the program and from the comments of its
// constants: go test ./internal/cli -run TheReference -update writes them.
func TestTheReferenceIsComplete(t *testing.T) {
	t.Parallel()
	src := readSource(t)
	for name, page := range map[string]func(*strings.Builder){
		"settings": func(b *strings.Builder) { settingsPage(t, b) },
		"commands": func(b *strings.Builder) { commandsPage(t, b) },
		"events":   func(b *strings.Builder) { eventsPage(src, b) },
		"errors":   func(b *strings.Builder) { errorsPage(src, b) },
		"problems": func(b *strings.Builder) { problemsPage(src, b) },
		"audit":    func(b *strings.Builder) { auditPage(src, b) },
		"http":     func(b *strings.Builder) { httpPage(t, b) },
	} {
		var b strings.Builder
		page(&b)
		path, got := "../../docs/reference/"+name+".md", strings.TrimRight(b.String(), "\n")+"\n"
		if flag.Lookup("update").Value.String() == "true" {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s is stale (-want +got); go test ./internal/cli -run TheReference -update rewrites it:\n%s", path, diff)
		}
	}
}

// begin writes the head of a page.
func begin(b *strings.Builder, title, lead string) {
	fmt.Fprintf(b, "# %s\n\n<!-- Generated: go test ./internal/cli -run TheReference -update -->\n\n%s\n", title, lead)
}

// head writes the head of a table.
func head(b *strings.Builder, columns ...string) {
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// literal matches flags, fields and variables in a sentence.
var literal = regexp.MustCompile(`(^|[\s(])(bloom [a-z]+ --[a-z]+|--[a-z][a-z-]*[a-z](?: \d+)?|Retry-After|Content-Type: [a-z/]+|X-[A-Za-z-]+|(?:GET|POST|PUT|DELETE) /[^\s,;]*[^\s,;.]|[a-z.]+_[a-z0-9_.]*[a-z0-9]|[A-Z]+_[A-Z_]*[A-Z]|(?:policy|data|metrics)\.[a-z]+)`)

// marked marks them as code.
func marked(text string) string {
	if strings.Contains(text, "`") {
		return text
	}
	return literal.ReplaceAllString(text, "$1`$2`")
}

func row(b *strings.Builder, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(marked(c))
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func codes[T ~string](names ...T) string {
	var out []string
	for _, n := range names {
		if n != "" {
			out = append(out, "`"+string(n)+"`")
		}
	}
	return strings.Join(out, " ")
}

// sentence makes one of the words of a comment.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(first)) + strings.TrimRight(words[size:], ".") + "."
}

// sentences makes sentences of words between semicolons.
func sentences(words string) string {
	var all []string
	for part := range strings.SplitSeq(words, "; ") {
		all = append(all, sentence(part))
	}
	return strings.Join(all, " ")
}

// helpOf returns the page of a command as on a machine that is nobody's.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	sys := System{Out: &out, Err: &out, Hostname: "host", Env: homeOnly}
	if code := Main(append(args, "--help"), sys); code != ExitOK {
		t.Fatalf("bloom %v --help: %d\n%s", args, code, &out)
	}
	return strings.NewReplacer("/home/someone", "~", "default host", "default HOSTNAME").Replace(out.String())
}

func homeOnly(name string) (string, bool) { return "/home/someone", name == "HOME" }

func commandsPage(t *testing.T, b *strings.Builder) {
	begin(b, "Commands", "`bloom COMMAND --help` and `man bloom` have the same text.")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+(?:[ -][a-z]+)*?)  +\S`)
	var visit func(path ...string)
	visit = func(path ...string) {
		page := helpOf(t, path...)
		fmt.Fprintf(b, "\n## %s\n\n```text\n%s```\n", strings.Join(append([]string{"bloom"}, path...), " "), page)
		_, below, groups := strings.Cut(page, "\nCommands:\n")
		switch {
		case len(path) == 0:
			if n := strings.Count(page, "\n"); n > 51 {
				t.Errorf("the first page has %d lines", n)
			}
			_, below, _ = strings.Cut(page, "\nRun:\n")
		case !groups && path[0] != "help" && (strings.Contains(page, "log-level=") || !strings.Contains(page, "\nExamples:\n")):
			t.Errorf("the page of %v has flags of all commands, or no examples:\n%s", path, page)
		case !groups:
			return
		}
		for _, c := range commands.FindAllStringSubmatch(below, -1) {
			visit(strings.Fields(c[1])...)
		}
	}
	visit()
}

// setting is a setting with the commands that have it.
type setting struct {
	flag *kong.Flag
	also []string
	by   []string
}

func settingsPage(t *testing.T, b *strings.Builder) {
	begin(b, "Settings", "A setting has the value of its flag; without the flag, that of its variable; without both, that of its line in the [config file](commands.md#bloom-help-settings). `bloom config show` lists the values in use and where each comes from.\n\n*Clients* are the commands that talk to a server.")
	var root commands
	parser, _, err := newParser(&root, nil, System{Out: b, Err: b, Hostname: "host", Env: homeOnly})
	if err != nil {
		t.Fatal(err)
	}
	settings, groups := map[string]*setting{}, map[string][]string{}
	var order []string
	add := func(by string, flags []*kong.Flag) {
		for _, f := range flags {
			key := f.Tag.Get("key")
			if !f.Tag.Has("var") {
				continue
			}
			if key == "" || f.Help == "" {
				t.Errorf("--%s has no key or no help", f.Name)
			}
			s := settings[key]
			if s == nil {
				s = &setting{flag: f}
				settings[key] = s
				group := "Other"
				if f.Group != nil {
					group = strings.TrimSuffix(f.Group.Title, ":")
				} else if len(order) == 0 || slices.Contains([]string{"all", "up", "server", "worker"}, by) {
					group = "General"
				}
				if !slices.Contains(order, group) {
					order = append(order, group)
				}
				groups[group] = append(groups[group], key)
			}
			if f.Name != s.flag.Name && !slices.Contains(s.also, "--"+f.Name) {
				s.also = append(s.also, "--"+f.Name)
			}
			if !slices.Contains(s.by, by) {
				s.by = append(s.by, by)
			}
		}
	}
	add("all", parser.Model.Flags)
	for _, leaf := range parser.Model.Leaves(false) {
		path := strings.TrimPrefix(leaf.FullPath(), "bloom ")
		switch {
		case slices.Contains([]string{"up", "server", "worker", "membridge"}, path):
			add(path, leaf.Flags)
		case !leaf.Hidden && leaf.Parent.Name != "help" && leaf.Parent.Name != "config" && leaf.Parent.Name != "service":
			first, _, _ := strings.Cut(path, " ")
			add(first, leaf.Flags)
		}
	}
	home := strings.NewReplacer("/home/someone", "~")
	for _, group := range order {
		fmt.Fprintf(b, "\n## %s\n", group)
		head(b, "flag", "variable", "file key", "default", "used by", "what it does")
		for _, key := range groups[group] {
			s := settings[key]
			fallback := home.Replace(s.flag.Default)
			if fallback == "host" {
				fallback = "HOSTNAME"
			}
			if len(s.by) > 10 {
				s.by = append(slices.DeleteFunc(s.by, func(by string) bool { return by != "worker" && by != "membridge" }), "clients")
			}
			row(b, codes(append([]string{"--" + s.flag.Name}, s.also...)...), codes(s.flag.Tag.Get("var")), codes(key), codes(fallback), strings.Join(s.by, ", "), s.flag.Help)
		}
	}
}

// constant is a constant of the source with the comment behind it.
type constant struct{ name, value, comment string }

// source is the program's source, without tests.
type source struct {
	t        *testing.T
	files    map[string][]*ast.File // by folder
	values   map[string]string      // of constants, by name; those of the vocabulary win
	comments map[string]string      // likewise
	statuses map[string]int         // by Kind
}

func readSource(t *testing.T) *source {
	s := &source{t: t, files: map[string][]*ast.File{}, values: map[string]string{}, comments: map[string]string{}, statuses: map[string]int{}}
	set := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && name != "client" && name != "internal" && !strings.HasPrefix(name, "internal/"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		dir, _ := filepath.Split(name)
		s.files[strings.TrimSuffix(dir, "/")] = append(s.files[strings.TrimSuffix(dir, "/")], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(s.files))) {
		for _, c := range s.constants(dir, "") {
			s.values[c.name], s.comments[c.name] = c.value, c.comment
		}
	}
	s.inspect("internal/httpapi", func(n ast.Node) {
		if kv, ok := n.(*ast.KeyValueExpr); ok && strings.HasPrefix(nameOf(kv.Key), "Kind") {
			for status := range 600 {
				if status >= 400 && "Status"+strings.ReplaceAll(http.StatusText(status), " ", "") == nameOf(kv.Value) {
					s.statuses[nameOf(kv.Key)] = status
				}
			}
		}
	})
	return s
}

// nameOf returns the name of a constant, without its package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// inspect visits the nodes of a folder, or with "" of all.
func (s *source) inspect(dir string, visit func(ast.Node)) {
	for _, d := range slices.Sorted(maps.Keys(s.files)) {
		for _, file := range s.files[d] {
			if dir != "" && d != dir {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool { visit(n); return true })
		}
	}
}

// constants returns the text constants of a folder whose names have the prefix.
func (s *source) constants(dir, prefix string) (all []constant) {
	for _, file := range s.files[dir] {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				if !strings.HasPrefix(v.Names[0].Name, prefix) || len(v.Values) != 1 {
					continue
				}
				comment := strings.Join(strings.Fields(v.Comment.Text()), " ")
				if _, alias := v.Values[0].(*ast.SelectorExpr); alias {
					comment = cmp.Or(comment, s.comments[v.Names[0].Name])
				}
				all = append(all, constant{v.Names[0].Name, s.textOf(v.Values[0]), comment})
			}
		}
	}
	return all
}

// described returns constants, each of which must have a comment behind it.
func (s *source) described(dir, prefix string) []constant {
	all := s.constants(dir, prefix)
	for _, c := range all {
		if c.comment == "" {
			s.t.Errorf("%s has no comment behind it that describes it in the reference", c.name)
		}
	}
	return all
}

var verb = regexp.MustCompile(`%[a-z]`)

// textOf returns the text of an expression, with … for what only runs know.
func (s *source) textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return s.textOf(e.X) + s.textOf(e.Y)
	case *ast.CallExpr:
		if nameOf(e.Fun) == "Sprintf" {
			return verb.ReplaceAllString(s.textOf(e.Args[0]), "…")
		}
	case *ast.Ident, *ast.SelectorExpr:
		if text, known := s.values[nameOf(e)]; known {
			return text
		}
	}
	return "…"
}

// fields returns the fields of a composite literal.
func fields(c *ast.CompositeLit) map[string]ast.Expr {
	all := map[string]ast.Expr{}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			name := nameOf(kv.Key)
			if lit, ok := kv.Key.(*ast.BasicLit); ok {
				name, _ = strconv.Unquote(lit.Value)
			}
			all[name] = kv.Value
		}
	}
	return all
}

func eventsPage(s *source, b *strings.Builder) {
	begin(b, "Events", "The stream of a task, `bloom task logs ID --json` or `GET /api/runtime/llm-tasks/{id}/events`, has one event per line: `seq`, `type`, `at` (Unix milliseconds), `epoch` (the lease; 0 before the first) and `data`. New types and fields may be added. A text longer than 64 KiB is cut in the event and marked `truncated`, with its `size`; the artifact has the whole output.")
	write := func(heading, dir string) {
		fmt.Fprintf(b, "\n## %s\n", heading)
		head(b, "type", "when", "fields of `data`")
		for _, c := range s.described(dir, "Event") {
			when, data, _ := strings.Cut(c.comment, "; data: ")
			data, more, _ := strings.Cut(data, ", ")
			if c.name != "EventUsage" || dir != "" {
				row(b, codes(c.value), sentence(when), strings.TrimSuffix(codes(strings.Fields(data)...)+", "+more, ", "))
			}
		}
	}
	write("Of the server", "")
	write("Of a run", "internal/claude")
	b.WriteString("\n`parent` is the ID of the tool use that started the subagent.\n\n## Warnings\n\nThe `code` of an event `warning`. Those that concern the outcome are in `metrics.warnings` of the result as well.\n")
	warnings := map[string][]string{}
	s.inspect("internal/claude", func(n ast.Node) {
		code, text := "", ast.Expr(nil)
		switch n := n.(type) {
		case *ast.CallExpr:
			if nameOf(n.Fun) == "warn" && len(n.Args) == 2 {
				code, text = s.textOf(n.Args[0]), n.Args[1]
			}
		case *ast.CompositeLit:
			if f := fields(n); nameOf(n.Type) == "data" && f["code"] != nil {
				code, text = s.textOf(f["code"]), cmp.Or[ast.Expr](f["text"], &ast.BasicLit{Value: `"the line of output, which is not JSON"`})
			}
		}
		if code == "" || code == "…" {
			return
		}
		if said := s.textOf(text); !slices.Contains(warnings[code], said) {
			warnings[code] = append(warnings[code], said)
		}
	})
	head(b, "code", "text")
	for _, code := range slices.Sorted(maps.Keys(warnings)) {
		row(b, codes(code), sentence(strings.Join(warnings[code], "; or: ")))
	}
}

// statusOf has the statuses of codes that no bloom.Error with a Kind has.
var statusOf = map[string]int{"method_not_allowed": 405, "unsupported_media_type": 415, "https_required": 403, "membridge_redirect": 502, "membridge_job_failed": 502}

func errorsPage(s *source, b *strings.Builder) {
	begin(b, "Errors", "## Error codes\n\nEvery response with a status of 400 or above is `{\"error\",\"code\",\"details\",\"request_id\"}`: a sentence for people, a stable code for programs, the fields that are wrong, and the ID under which the server's log has the request. Responses 429 and 503 have `Retry-After`.")
	kinds, said := map[string][]string{}, map[string][]string{}
	s.inspect("", func(n ast.Node) {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || nameOf(lit.Type) != "Error" {
			return
		}
		f := fields(lit)
		if f["Code"] == nil || f["Kind"] == nil {
			return
		}
		code, kind := s.textOf(f["Code"]), nameOf(f["Kind"])
		if !slices.Contains(kinds[code], kind) {
			kinds[code] = append(kinds[code], kind)
		}
		if f["Message"] != nil {
			said[code] = append(said[code], s.textOf(f["Message"]))
		}
	})
	means := map[string]string{}
	for _, c := range slices.Concat(s.described("", "Code"), s.described("internal/httpapi", "Code"), s.described("internal/front", "Code")) {
		means[c.value] = c.comment
	}
	delete(kinds, "…")
	for code, messages := range said {
		if means[code] == "" && code != "…" {
			if len(messages) != 1 {
				s.t.Errorf("the code %s has %d messages: give it a constant with a comment in error.go", code, len(messages))
			}
			means[code] = messages[0]
		}
	}
	type line struct {
		status int
		code   string
	}
	var lines []line
	for code := range means {
		status := statusOf[code]
		if status == 0 {
			if len(kinds[code]) != 1 {
				s.t.Errorf("the code %s has the kinds %v: say its status in statusOf", code, kinds[code])
				continue
			}
			status = s.statuses[kinds[code][0]]
		}
		lines = append(lines, line{status, code})
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.status, b.status), cmp.Compare(a.code, b.code))
	})
	head(b, "status", "code", "what it means, and what to do")
	for _, l := range lines {
		row(b, strconv.Itoa(l.status), codes(l.code), sentences(means[l.code]))
	}
	b.WriteString("\n## Error classes of tasks\n\n`error_class` says why an attempt failed.\n")
	var web struct {
		Why map[string]struct{ Do string } `json:"why"`
	}
	raw, err := os.ReadFile("../../web/src/i18n/en/task.json")
	if err == nil {
		err = json.Unmarshal(raw, &web)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	head(b, "class", "why", "what to do")
	for _, c := range s.described("", "Class") {
		do := web.Why[c.value].Do
		if do == "" && c.name != "ClassCancelled" {
			s.t.Errorf("web/src/i18n/en/task.json does not say what to do about %s", c.value)
		}
		row(b, codes(c.value), sentences(c.comment), cmp.Or(do, "Nothing."))
	}
}

// otherTexts are the texts of problems that have more than one.
var otherTexts = map[string]string{"certificateExpired": "CodeCertificate", "artifactFolder": "CodeArtifacts"}

func problemsPage(s *source, b *strings.Builder) {
	begin(b, "Problems", "What `bloom doctor`, the web application and `GET /api/runtime/problems` report. An *error* means that work stops or soon will, a *warning* that someone should act, and *info* that nothing is wrong.")
	severities, texts := map[string][]string{}, map[string][][]string{}
	s.inspect("internal/problems", func(n ast.Node) {
		var parts []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			parts = n.Args
		case *ast.CompositeLit:
			parts = n.Elts
		}
		code := ""
		var severity []string
		for _, p := range parts {
			if kv, ok := p.(*ast.KeyValueExpr); ok {
				if text, ok := kv.Value.(*ast.CompositeLit); ok && len(text.Elts) == 3 && strings.Contains(s.textOf(text.Elts[1]), " ") {
					key := cmp.Or(otherTexts[nameOf(kv.Key)], nameOf(kv.Key))
					texts[key] = append(texts[key], []string{s.textOf(text.Elts[1]), s.textOf(text.Elts[2])})
				}
				p = kv.Value
			}
			name := nameOf(p)
			if call, ok := p.(*ast.CallExpr); ok && nameOf(call.Fun) == "severe" {
				severity = []string{"error", "warning"}
			} else if strings.HasPrefix(name, "Code") {
				code = name
			} else if strings.HasPrefix(name, "Severity") {
				severity = []string{s.values[name]}
			}
		}
		if code != "" {
			severities[code] = append(severities[code], severity...)
		}
	})
	head(b, "code", "severity", "what is wrong", "what to do")
	many := regexp.MustCompile(`\{[^}|]*\|([^}]*)\}`)
	blanks := strings.NewReplacer("{n}", "N", "{names}", "NAMES", "{labels}", "the labels LABELS", "{time}", "TIME", "{day}", "DATE", "{free}", "SIZE", "{why}", "REASON", "{causes}", ": CLASSES")
	for _, c := range s.constants("internal/problems", "Code") {
		severity := slices.Compact(slices.Sorted(slices.Values(severities[c.name])))
		if len(severity) == 0 || len(texts[c.name]) == 0 {
			s.t.Errorf("the problem %s has the severities %v and %d texts", c.value, severity, len(texts[c.name]))
		}
		for _, text := range texts[c.name] {
			row(b, codes(c.value), strings.Join(severity, " or "), sentence(blanks.Replace(many.ReplaceAllString(text[0], "$1"))), blanks.Replace(many.ReplaceAllString(text[1], "$1")))
		}
	}
	b.WriteString("\n## Why a queued task waits\n\n`waiting_for.reason` of a task, in `bloom task show`. If several apply, the first one is reported.\n")
	head(b, "reason", "what it means")
	for _, c := range s.described("internal/problems", "Wait") {
		row(b, codes(c.value), sentence(c.comment))
	}
}

func auditPage(s *source, b *strings.Builder) {
	begin(b, "Audit actions", "The `action` of an entry of the [audit log](../guides/audit.md).")
	head(b, "action", "what happened")
	for _, c := range s.described("internal/audit", "Action") {
		row(b, codes(c.value), sentence(c.comment))
	}
}

// schema is a type of the API's description.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        any               `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	Enum        []any             `json:"enum"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	MaxLength   *int              `json:"maxLength"`
	MaxItems    *int              `json:"maxItems"`
}

type media struct {
	Schema schema `json:"schema"`
}

type operation struct {
	Summary     string   `json:"summary"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Roles       []string `json:"x-roles"`
	Security    []map[string]any
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string           `json:"description"`
		Content     map[string]media `json:"content"`
	} `json:"responses"`
}

// kind returns the type of a field, with a link if it is one of the API's.
func (s schema) kind() string {
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	if s.Items != nil {
		return "list of " + s.Items.kind()
	}
	if len(s.Properties) > 0 {
		var parts []string
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(s.Properties))) {
			parts = append(parts, codes(name)+" "+s.Properties[name].kind())
		}
		return "parts " + strings.Join(parts, ", ")
	}
	kinds, null := []string{}, ""
	switch t := s.Type.(type) {
	case string:
		kinds = append(kinds, t)
	case []any:
		for _, k := range t {
			if k == "null" {
				null = " or null"
			} else {
				kinds = append(kinds, fmt.Sprint(k))
			}
		}
	}
	if s.Format == "binary" {
		kinds = []string{"bytes"}
	}
	return cmp.Or(strings.Join(kinds, " or "), "any") + null
}

// text returns the description of a field with its limits.
func (s schema) text(description string) string {
	parts := []string{strings.TrimRight(cmp.Or(description, s.Description), ".")}
	if len(s.Enum) > 0 {
		parts = append(parts, "One of "+codes(strings.Fields(strings.Trim(fmt.Sprint(s.Enum), "[]"))...))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		parts = append(parts, fmt.Sprintf("%.0f to %.0f", *s.Minimum, *s.Maximum))
	case s.Maximum != nil:
		parts = append(parts, fmt.Sprintf("At most %.0f", *s.Maximum))
	case s.Minimum != nil && *s.Minimum > 0:
		parts = append(parts, fmt.Sprintf("At least %.0f", *s.Minimum))
	}
	if s.MaxLength != nil {
		parts = append(parts, fmt.Sprintf("At most %d characters", *s.MaxLength))
	}
	if s.MaxItems != nil {
		parts = append(parts, fmt.Sprintf("At most %d entries", *s.MaxItems))
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ". ")
}

func httpPage(t *testing.T, b *strings.Builder) {
	var spec struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]schema }
		Tags       []struct{ Name, Description string }
	}
	if err := json.Unmarshal(app.OpenAPI(Version), &spec); err != nil {
		t.Fatal(err)
	}
	begin(b, "HTTP API", "Every operation, from the description that the server has at `/openapi.json` and shows at `/docs`. Send a key as `X-Runtime-API-Key` or `Authorization: Bearer`. A response with a status of 400 or above is a [Failure](#failure) with one of the [error codes](errors.md). Types are at the [end](#types).")
	for _, tag := range spec.Tags {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", tag.Name, tag.Description)
		for _, path := range slices.Sorted(maps.Keys(spec.Paths)) {
			for _, method := range []string{"get", "post", "put", "patch", "delete"} {
				if op, there := spec.Paths[path][method]; there && slices.Contains(op.Tags, tag.Name) {
					op.write(b, strings.ToUpper(method)+" "+path)
					delete(spec.Paths[path], method)
				}
			}
		}
	}
	for path, left := range spec.Paths {
		if len(left) > 0 {
			t.Errorf("%s has methods or tags that the page lacks: %v", path, slices.Sorted(maps.Keys(left)))
		}
	}
	b.WriteString("\n## Types\n\nFields in bold are required, or always present in a response.\n")
	for _, name := range slices.Sorted(maps.Keys(spec.Components.Schemas)) {
		s := spec.Components.Schemas[name]
		fmt.Fprintf(b, "\n### %s\n", name)
		if len(s.Properties) == 0 {
			fmt.Fprintf(b, "\n%s\n", cmp.Or(s.Description, "No fields."))
			continue
		}
		head(b, "field", "type", "description")
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p, shown := s.Properties[field], codes(field)
			if slices.Contains(s.Required, field) {
				shown = "**" + shown + "**"
			}
			row(b, shown, p.kind(), p.text(""))
		}
	}
}

func (op operation) write(b *strings.Builder, title string) {
	who := "none; it needs no key"
	if open := len(op.Security) > 0 && len(op.Security[0]) == 0; !open {
		who = strings.Join(op.Roles, ", ")
	}
	fmt.Fprintf(b, "\n### %s\n\n%s %s\n\n- Roles: %s.\n", title, sentence(op.Summary), marked(op.Description), who)
	if op.RequestBody != nil {
		for _, kind := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			fmt.Fprintf(b, "- Body: %s, `%s`.\n", op.RequestBody.Content[kind].Schema.kind(), kind)
		}
	}
	var answers []string
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		if strings.HasSuffix(status, "XX") {
			continue
		}
		what := r.Description
		for _, kind := range slices.Sorted(maps.Keys(r.Content)) {
			if what = r.Content[kind].Schema.kind(); kind != "application/json" {
				what += ", `" + kind + "`"
			}
		}
		answers = append(answers, strings.TrimSpace(status+" "+what))
	}
	fmt.Fprintf(b, "- Response: %s.\n", strings.Join(answers, "; "))
	if len(op.Parameters) > 0 {
		head(b, "parameter", "in", "type", "description")
	}
	for _, p := range op.Parameters {
		row(b, codes(p.Name), p.In, p.Schema.kind(), p.Schema.text(p.Description))
	}
}
