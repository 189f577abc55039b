package claude_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
)

// taken notes what was uploaded.
type taken struct {
	files map[string]string
	tags  map[string]string
	fail  func(path string, try int) (again bool, err error)
	tries map[string]int
}

func (u *taken) Upload(_ context.Context, _ bloom.Task, path, tag string, content io.ReaderAt, size int64) (bool, error) {
	if u.files == nil {
		u.files, u.tags, u.tries = map[string]string{}, map[string]string{}, map[string]int{}
	}
	u.tries[path]++
	if u.fail != nil {
		if again, err := u.fail(path, u.tries[path]); err != nil {
			return again, err
		}
	}
	raw, err := io.ReadAll(io.NewSectionReader(content, 0, size))
	u.files[path], u.tags[path] = string(raw), tag
	return false, err
}

// upload runs the uploads of a task with these globs; said is what the task's stream
// says of those that were not made.
func upload(t *testing.T, c claude.Config, globs ...string) (u *taken, said []string) {
	t.Helper()
	if u, _ = c.Uploads.(*taken); u == nil {
		u = &taken{}
		c.Uploads = u
	}
	claude.UploadFiles(t.Context(), c, bloom.Task{Policy: bloom.Policy{Artifacts: globs}}, func(typ string, data any) {
		if typ == claude.EventWarning {
			said = append(said, fmt.Sprint(data.(map[string]any)["text"]))
		}
	})
	return u, said
}

// folder makes files by name and content.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesThatGlobsMatchAreUploaded(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"out/a.txt": "a", "out/deep/er/b.bin": "\x00b", "top.log": "log", "top.txt": "no", "out/.git/config": "no", "empty": ""})
	u, said := upload(t, claude.Config{Workdir: dir, MaxFiles: 10, MaxFileBytes: 10}, "out/**", "*.log", "./empty", "none/**", "out/a.txt")
	var got []string
	for path, content := range u.files {
		got = append(got, path+"="+content+" "+u.tags[path])
	}
	slices.Sort(got)
	want := []string{"empty= ./empty", "out/a.txt=a out/**", "out/deep/er/b.bin=\x00b out/**", "top.log=log *.log"}
	if !slices.Equal(got, want) || !slices.Equal(said, []string{"none/** matches no file"}) {
		t.Errorf("uploaded %q, said %q", got, said)
	}
}

func TestNothingOutsideTheWorkingFolderIsUploaded(t *testing.T) {
	t.Parallel()
	outside := folder(t, map[string]string{"secret": "secret"})
	dir := folder(t, map[string]string{"out/fine": "fine"})
	for name, target := range map[string]string{"out/link": filepath.Join(outside, "secret"), "out/up": "../../secret", "linked": outside, "out/passwd": "/etc/passwd", "out/inside": "fine"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "out", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, said := upload(t, claude.Config{Workdir: dir, MaxFiles: 100, MaxFileBytes: 100},
		"**", "linked/*", "linked/secret", "../**", "/etc/passwd", outside+"/**", "out/../../x", "{a,b}", "[")
	for path, content := range u.files {
		if content != "fine" {
			t.Errorf("%s was uploaded: %q", path, content)
		}
	}
	if len(u.files) != 2 || u.files["out/inside"] != "fine" {
		t.Errorf("uploaded %v", u.files)
	}
	for _, part := range []string{"out/link was not uploaded", "out/up was not", "out/passwd was not", "out/pipe was not uploaded: not a regular file", "../** was not uploaded: only relative paths", "{a,b} was not uploaded: no such file", "[ was not uploaded: not a valid pattern"} {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, part) }) {
			t.Errorf("nothing says %q: %q", part, said)
		}
	}
	if all := strings.Join(said, "\n"); strings.Contains(all, dir) || strings.Contains(all, "secret: ") {
		t.Errorf("the machine's paths are shown: %s", all)
	}
}

func TestTheFolderOfTranscriptsIsTheServers(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"transcript/1-4.jsonl.gz": "mine", "transcripts/a": "fine"})
	u, said := upload(t, claude.Config{Workdir: dir, MaxFiles: 9, MaxFileBytes: 9}, "*/*")
	if len(u.files) != 1 || u.files["transcripts/a"] != "fine" {
		t.Errorf("uploaded %v", u.files)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "transcript/1-4.jsonl.gz was not uploaded: the folder transcript/ is reserved") {
		t.Errorf("said %q", said)
	}
}

func TestTheOperatorsLimitsOfFilesHold(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a": "123", "b": "1234", "c": "1", "d": "1"})
	u, said := upload(t, claude.Config{Workdir: dir, MaxFiles: 3, MaxFileBytes: 3}, "*")
	if len(u.files) != 2 || u.files["a"] != "123" || u.files["c"] != "1" {
		t.Errorf("uploaded %v", u.files)
	}
	if all := strings.Join(said, "\n"); len(said) != 2 || !strings.Contains(all, "b was not uploaded: its 4 bytes are more than the 3") || !strings.Contains(all, "4 files match, and this worker uploads at most 3") {
		t.Errorf("said %q", said)
	}
	for _, none := range []claude.Config{{Workdir: dir, MaxFileBytes: 3}, {Workdir: dir, MaxFiles: 3}} {
		if u, said := upload(t, none, "*"); len(u.files) > 0 || len(said) != 1 || !strings.Contains(said[0], "uploads are disabled") {
			t.Errorf("uploaded %v, said %q", u.files, said)
		}
	}
}

func TestUploadsAreRepeatedWhereThatHelps(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"away": "1", "changed": "2", "large": "3", "wrong": "4"})
	u := &taken{fail: func(path string, try int) (bool, error) {
		switch {
		case path == "away" && try < 3:
			return true, errors.New("the server is away")
		case path == "changed" && try < 2, path == "wrong":
			return false, bloom.Invalid("The content does not match the announced size or digest")
		case path == "large":
			return false, &bloom.Error{Kind: bloom.KindTooLarge, Message: "The file is larger than the 1 bytes that this server accepts"}
		}
		return false, nil
	}}
	_, said := upload(t, claude.Config{Workdir: dir, MaxFiles: 10, MaxFileBytes: 10, Uploads: u}, "*")
	if len(u.files) != 2 || u.files["away"] != "1" || u.files["changed"] != "2" || u.tries["large"] != 1 || u.tries["wrong"] != 2 {
		t.Errorf("uploaded %v after %v", u.files, u.tries)
	}
	if len(said) != 2 || !strings.Contains(said[0], "large was not uploaded: the file is larger than the 1 bytes") {
		t.Errorf("said %q", said)
	}
}

func TestManyFilesAndManyNamesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	manyFiles(t, dir, 4_000)
	globs := append(slices.Clone(costly), "aaaaaaaaaaaaaaaaaaaaaaaaa/*")
	began := time.Now()
	u, said := upload(t, claude.Config{Workdir: dir, MaxFiles: 2, MaxFileBytes: 10}, globs...)
	if took := time.Since(began); took > time.Minute || len(said) == 0 {
		t.Errorf("uploaded %d in %s, said %q", len(u.files), took, said)
	}
}
