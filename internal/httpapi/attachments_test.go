package httpapi_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const plainTask = `{"context_id":"ctx","agent_slug":"coder","prompt":"say hello"}`

// form returns a form with a task, unless it is empty, and files by name and content, in turn.
func form(task string, files ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if task != "" {
		_ = w.WriteField("task", task)
	}
	for i := 0; i < len(files); i += 2 {
		part, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + files[i] + `"`}})
		_, _ = part.Write([]byte(files[i+1]))
	}
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

func withAttachments(t *testing.T, limit int64) fixtureOption {
	return func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		d.MaxAttachments, d.TempDir = limit, t.TempDir()
	}
}

func TestATaskIsPostedWithFiles(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withAttachments(t, 1<<20))
	r.worker("w", 1)
	body, kind := form(plainTask, "звіт за день.html", "<script>", "a.txt", "text")
	var task, again bloom.Task
	r.call(201, &task, "POST", "/llm-tasks", body, "Content-Type", kind, "Idempotency-Key", "k")
	r.call(201, &again, "POST", "/llm-tasks", body, "Content-Type", kind, "Idempotency-Key", "k")
	if again.ID != task.ID || r.files() != 2 {
		t.Errorf("a repeat made task %s, and %d files", again.ID, r.files())
	}
	other, kind2 := form(plainTask, "a.txt", "other text")
	r.fails(409, "", "POST", "/llm-tasks", other, "Content-Type", kind2, "Idempotency-Key", "k")
	r.fails(409, "", "POST", "/llm-tasks", plainTask, "Idempotency-Key", "k")
	if r.files() != 2 {
		t.Errorf("a refused task left its file: %d", r.files())
	}
	r.call(200, &task, "GET", "/llm-tasks/"+task.ID, "")
	if len(task.Attachments) != 2 || task.Attachments[0].Name != "звіт за день.html" || task.Attachments[1].Size != 4 || task.Attachments[1].SHA256 != sumOf("text") {
		t.Fatalf("attachments %+v", task.Attachments)
	}
	var list []bloom.Artifact
	r.call(200, &list, "GET", "/artifacts?task_id="+task.ID, "")
	if len(list) != 2 || list[0].Type != contract.Attachment || list[0].Path != "attachments/a.txt" {
		t.Errorf("artifacts %+v", list)
	}
	at := "/llm-tasks/" + task.ID + "/attachments/"
	a := r.call(200, nil, "GET", at+"%D0%B7%D0%B2%D1%96%D1%82%20%D0%B7%D0%B0%20%D0%B4%D0%B5%D0%BD%D1%8C.html", "")
	if h := a.header; string(a.body) != "<script>" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment;") || h.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%s with %v", a.body, h)
	}
	r.fails(404, "not_found", "GET", at+"b.txt", "")
	// A worker reads them only under the task's lease.
	r.fails(400, "", "GET", at+"a.txt", "", auth.HeaderKey, workerKey)
	r.fails(409, "lease_lost", "GET", at+"a.txt?lease_id="+task.ID, "", auth.HeaderKey, workerKey)
	lease := r.lease(task.ID).Lease.ID
	if a := r.call(200, nil, "GET", at+"a.txt?lease_id="+lease, "", auth.HeaderKey, workerKey); string(a.body) != "text" {
		t.Errorf("the worker got %q", a.body)
	}
}

func TestRefusedFilesLeaveNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withAttachments(t, 1000))
	long := strings.Repeat("x", 600)
	post := func(want int, task string, files ...string) {
		t.Helper()
		body, kind := form(task, append([]string{"fine.txt", "fine"}, files...)...)
		r.fails(want, "", "POST", "/llm-tasks", body, "Content-Type", kind)
	}
	for _, name := range []string{"", "../up", "a/b", "/etc/passwd", `a\\b`, "..", ".hidden", "-rf", "~root", " space", "tab\there", "null\x00", "rtl\u202egpj.exe", "bad\xff", "CLAUDE.md", "Claude.Local.MD", "fine.txt", strings.Repeat("n", 201)} {
		post(400, plainTask, name, "x")
	}
	post(413, plainTask, "large", long, "too large", long)
	many := []string{}
	for i := range contract.MaxAttachments {
		many = append(many, fmt.Sprint("f", i), "")
	}
	post(400, plainTask, many...)
	post(400, "", "no", "task")
	post(400, `{"context_id":"ctx"}`)
	body, kind := form(plainTask, "fine.txt", "fine", "cut.txt", "cut")
	r.fails(400, "", "POST", "/llm-tasks", body[:len(body)-40], "Content-Type", kind)
	r.fails(400, "", "POST", "/llm-tasks", strings.Replace(body, `"file"`, `"other"`, 1), "Content-Type", kind)
	r.fails(400, "", "POST", "/llm-tasks", strings.Replace(body, "form-data; name=\"file\"", "form-data; "+strings.Repeat("h", 20<<10)+"; name=\"file\"", 1), "Content-Type", kind)
	r.fails(413, "", "POST", "/llm-tasks", strings.Repeat("x", 6<<20), "Content-Type", kind)
	if r.files() != 0 {
		t.Errorf("%d files are left", r.files())
	}
	none := newFixture(t)
	none.fails(409, "", "POST", "/llm-tasks", body, "Content-Type", kind)
	var health struct {
		Most int64 `json:"max_attachments"`
	}
	if r.call(http.StatusOK, &health, "GET", "/health", ""); health.Most != 1000 {
		t.Errorf("the health states a limit of %d bytes", health.Most)
	}
}
