package httpapi_test

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// An archive has what the list has, under names of its own, and is cut off if a content is not what
// was recorded. Lists of artifacts say what their task was. HTML is shown without its scripts only.
func TestArtifactsAreArchivedListedWithTheirTaskAndShown(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.MaxFile = 1 << 20 })
	r.worker("w1", 1)
	task := r.task("")
	lease := r.lease(task.ID).Lease.ID
	at := "/llm-tasks/" + task.ID
	put := func(path, content string) {
		r.call(200, nil, "PUT", at+"/artifacts?lease_id="+lease+"&sha256="+sumOf(content)+"&path="+path, content, "Content-Type", "application/octet-stream")
	}
	put("out/a.txt", "alpha")
	put("page.html", "<p>")
	output := "the answer"
	r.call(200, nil, "POST", at+"/complete", string(storable.MustJSON(bloom.Completion{LeaseID: lease, Status: "success", Output: &output})))

	var list []bloom.Artifact
	r.call(200, &list, "GET", "/artifacts?type=FILE", "")
	if len(list) != 2 || list[0].Prompt != task.Prompt || list[0].ContextID != task.ContextID {
		t.Fatalf("the files are listed as %+v", list)
	}
	archive := func(query string) (files map[string]string, err error) {
		res, err := r.client.Do(r.request("GET", "/api/runtime/artifacts/archive?"+query, ""))
		must(t, err)
		defer res.Body.Close()
		if media := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || media != "application/zip" {
			t.Fatalf("%s of %s", res.Status, media)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
		must(t, err)
		files = map[string]string{}
		for _, f := range z.File {
			content, err := z.Open(f.Name)
			must(t, err)
			text, err := io.ReadAll(content)
			must(t, err)
			files[f.Name] = string(text)
		}
		return files, nil
	}
	for query, want := range map[string]map[string]string{
		"type=FILE":                         {task.ID + "/out/a.txt": "alpha", task.ID + "/page.html": "<p>"},
		"task_id=" + task.ID + "&type=FILE": {"out/a.txt": "alpha", "page.html": "<p>"},
		"type=none":                         {},
	} {
		files, err := archive(query)
		must(t, err)
		if !maps.Equal(files, want) {
			t.Errorf("the archive of %s has %v", query, files)
		}
	}
	files, err := archive("task_id=" + task.ID)
	must(t, err)
	if len(files) != 3 {
		t.Errorf("all of the task is %v", files)
	}

	header := r.do("GET", "/api/runtime/artifacts/"+list[0].ID+"/content?view=1", "").header
	if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox; default-src 'none'") || header.Get("Content-Disposition") != "" {
		t.Errorf("HTML is shown with %v", header)
	}
	if header := r.do("GET", "/api/runtime/artifacts/"+list[1].ID+"/content?view=1", "").header; !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
		t.Errorf("other content is shown with %v", header)
	}

	must(t, filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.WriteFile(path, []byte(strings.Repeat("x", 5)), 0o600)
	}))
	if res, err := r.client.Do(r.request("GET", "/api/runtime/artifacts/archive?type=FILE", "")); err == nil {
		defer res.Body.Close()
		if _, err = io.ReadAll(res.Body); err == nil && res.StatusCode == http.StatusOK {
			t.Error("an archive of altered content is complete")
		}
	}
}
