package workspace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

var limits = workspace.Limits{Bytes: 8 << 20, Entries: 1000}

func write(t *testing.T, dir, name, content string, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, dir, name, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// tree is everything below a folder: name → mode, and content or target.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			if text, err = os.Readlink(path); err != nil {
				return err
			}
		}
		name, err := filepath.Rel(dir, path)
		all[name] = info.Mode().String() + " " + text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pack(t *testing.T, dir string) ([]byte, workspace.Packed) {
	t.Helper()
	var archive bytes.Buffer
	packed, err := workspace.Pack(t.Context(), &archive, dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	return archive.Bytes(), packed
}

func TestAFolderComesBackAsItWas(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, "a.txt", "hello", 0o644)
	write(t, from, "bin/run", "#!/bin/sh", 0o755)
	write(t, from, "bin/secret", "s", 0o400)
	write(t, from, "übung/zeile\nzwei "+strings.Repeat("x", 200), "", 0o600)
	symlink(t, from, "here", "bin/run")
	symlink(t, from, "bin/up", "../a.txt")
	symlink(t, from, "dangling", "nowhere")
	if err := errors.Join(os.Mkdir(filepath.Join(from, "empty"), 0o755), os.Chmod(filepath.Join(from, "bin"), 0o555)); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_600_000_000, 123_456_789)
	if err := os.Chtimes(filepath.Join(from, "a.txt"), at, at); err != nil {
		t.Fatal(err)
	}
	archive, packed := pack(t, from)
	if packed.Skipped != 0 || packed.Entries != 10 {
		t.Errorf("packed %+v", packed)
	}
	n, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), to, limits)
	if err != nil || n != packed.Entries {
		t.Fatalf("%d entries, %v", n, err)
	}
	if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(to, "a.txt")); err != nil || !info.ModTime().Equal(at) {
		t.Errorf("time %v, %v", info.ModTime(), err)
	}
	if again, _ := pack(t, to); !bytes.Equal(again, archive) {
		t.Error("the same files make another archive")
	}
	for _, dir := range []string{from, to} {
		if err := workspace.Remove(t.Context(), dir); err != nil {
			t.Errorf("a folder with a write-protected one is not removed: %v", err)
		}
	}
}

func TestWhatLeadsOutOrIsNoFileStays(t *testing.T) {
	t.Parallel()
	outside, from := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "secret", 0o644)
	write(t, from, "deep/er/kept", "kept", 0o644)
	for name, target := range map[string]string{
		"absolute": filepath.Join(outside, "secret"), "folder": outside, "up": "../" + filepath.Base(outside) + "/secret",
		"deep/up": "../../x", "sneaky": "deep/er/../../../x", "root": "/",
	} {
		symlink(t, from, name, target)
	}
	symlink(t, from, "deep/er/top", "../..")
	if err := errors.Join(syscall.Mkfifo(filepath.Join(from, "pipe"), 0o644), syscall.Mkfifo(filepath.Join(from, workspace.IgnoreFile), 0o644)); err != nil {
		t.Fatal(err)
	}
	archive, packed := pack(t, from)
	if packed.Skipped != 8 || len(packed.Examples) != 5 {
		t.Errorf("packed %+v", packed)
	}
	if bytes.Contains(archive, []byte("secret")) {
		t.Error("what lies outside is in the archive")
	}
	to := t.TempDir()
	if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), to, limits); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, to); len(got) != 4 {
		t.Errorf("unpacked %v", got)
	}
}

func TestIgnoredFilesStay(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	write(t, from, workspace.IgnoreFile, "# big things\n**/node_modules\n*.log\n!keep.log\n", 0o644)
	for _, name := range []string{"a.js", "node_modules/x/y", "web/node_modules/z", "b.log", "keep.log", "web/c.log"} {
		write(t, from, name, "", 0o644)
	}
	archive, _ := pack(t, from)
	to := t.TempDir()
	if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), to, limits); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range tree(t, to) {
		names = append(names, name)
	}
	want := map[string]bool{workspace.IgnoreFile: true, "a.js": true, "keep.log": true, "web": true, "web/c.log": true}
	for _, name := range names {
		if !want[name] {
			t.Errorf("%s was not ignored", name)
		}
	}
	if len(names) != len(want) {
		t.Errorf("unpacked %v", names)
	}
	write(t, from, workspace.IgnoreFile, strings.Repeat("x\n", 501), 0o644)
	if _, err := workspace.Pack(t.Context(), io.Discard, from, limits); err == nil || !strings.Contains(err.Error(), workspace.IgnoreFile) {
		t.Errorf("an endless list of patterns: %v", err)
	}
}

func TestAFolderBeyondTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", strings.Repeat("a", 5000), 0o644)
	write(t, dir, "b", "b", 0o644)
	for name, l := range map[string]workspace.Limits{"bytes": {Bytes: 5000, Entries: 9}, "entries": {Bytes: 1 << 20, Entries: 1}} {
		if _, err := workspace.Pack(t.Context(), io.Discard, dir, l); err == nil {
			t.Errorf("packing beyond the limit of %s succeeded", name)
		}
		archive, _ := pack(t, dir)
		if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), t.TempDir(), l); err == nil {
			t.Errorf("unpacking beyond the limit of %s succeeded", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := workspace.Pack(ctx, io.Discard, dir, limits); !errors.Is(err, context.Canceled) {
		t.Errorf("packing after the end: %v", err)
	}
}

// entry is one header of a hostile archive, with its content.
type entry struct {
	tar.Header
	content string
}

func archiveOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, e := range entries {
		if e.Mode == 0 {
			e.Mode = 0o644
		}
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		if e.Size == 0 {
			e.Size = int64(len(e.content))
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, e.content) // shorter than the header says: that is one of the cases
	}
	_ = w.Flush()
	return raw.Bytes()
}

func TestHostileArchivesAreRefusedAndReachNothingOutside(t *testing.T) {
	t.Parallel()
	file := func(name, content string) entry { return entry{tar.Header{Name: name}, content} }
	link := func(name, target string) entry {
		return entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}, ""}
	}
	for name, entries := range map[string][]entry{
		"parent":                    {file("../escaped", "x")},
		"parent within":             {file("a/../../escaped", "x")},
		"absolute":                  {file("/escaped", "x")},
		"dot":                       {{tar.Header{Name: ".", Typeflag: tar.TypeDir}, ""}},
		"absolute link":             {link("l", "/etc/passwd")},
		"link up":                   {link("l", "..")},
		"link up through a folder":  {link("a/b/l", "../../../x")},
		"link up after down":        {link("l", "a/../..")},
		"file through a link":       {link("l", "a"), file("l/x", "x")},
		"link and file":             {link("l", "a"), file("l", "x")},
		"file twice":                {file("a", "x"), file("a", "y")},
		"file below a file":         {file("a", "x"), file("a/b", "y")},
		"folder over a file":        {file("a", "x"), {tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}},
		"hard link":                 {file("a", "x"), {tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "a"}, ""}},
		"hard link out":             {{tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, ""}},
		"pipe":                      {{tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}},
		"device":                    {{tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, ""}},
		"huge":                      {{tar.Header{Name: "huge", Size: 1 << 40}, "x"}},
		"huge together":             {file("a", strings.Repeat("a", 5<<20)), file("b", strings.Repeat("b", 5<<20))},
		"shorter than its header":   {{tar.Header{Name: "short", Size: 5000}, "x"}},
		"link with a folder's name": {link("a", "b"), {tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archiveOf(t, entries...)), dir, limits); err == nil {
				t.Errorf("it was taken: %v", tree(t, dir))
			}
			for name := range tree(t, parent) {
				if name != "in" && !strings.HasPrefix(name, "in/") {
					t.Errorf("%s was written outside", name)
				}
			}
		})
	}
}

func TestNamesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	few := workspace.Limits{Bytes: 8 << 20, Entries: 20}
	long := strings.Repeat("n", 250)
	from := t.TempDir()
	for i := range 10 { // each 2000 bytes deep
		write(t, from, fmt.Sprintf("%s/%d/x", strings.Repeat(long+"/", 7), i), "", 0o600)
	}
	if _, err := workspace.Pack(t.Context(), io.Discard, from, few); err == nil || !strings.Contains(err.Error(), "too long together") {
		t.Errorf("packing: %v", err)
	}
	var links []entry
	for i := range 10 {
		links = append(links, entry{tar.Header{Name: fmt.Sprint(i), Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("t", 2000)}, ""})
	}
	to := t.TempDir()
	if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archiveOf(t, links...)), to, few); err == nil || !strings.Contains(err.Error(), "too long together") {
		t.Errorf("unpacking: %v", err)
	}
	if got := tree(t, to); len(got) != 0 {
		t.Errorf("%d entries were made", len(got))
	}
}

func TestAFolderOfVeryManyFilesIsNotListedWhole(t *testing.T) {
	t.Parallel()
	from, few := t.TempDir(), workspace.Limits{Bytes: 8 << 20, Entries: 20}
	write(t, from, workspace.IgnoreFile, "*.log\n", 0o600)
	for i := range 150 {
		write(t, from, fmt.Sprintf("%d.log", i), "", 0o600)
	}
	if packed, err := workspace.Pack(t.Context(), io.Discard, from, few); err != nil || packed.Entries != 1 {
		t.Errorf("packed %+v, %v", packed, err)
	}
	for i := range 60 {
		write(t, from, fmt.Sprintf("%d.more.log", i), "", 0o600)
	}
	if _, err := workspace.Pack(t.Context(), io.Discard, from, few); err == nil || !strings.Contains(err.Error(), "in one folder") {
		t.Errorf("211 files where 200 may be: %v", err)
	}
}

func TestPrivilegesAreNotUnpacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive := archiveOf(t, entry{tar.Header{Name: "su", Mode: 0o6755}, "x"}, entry{tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o3777}, ""})
	if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), dir, limits); err != nil {
		t.Fatal(err)
	}
	for name, text := range tree(t, dir) {
		if strings.ContainsAny(text[:3], "ugt") {
			t.Errorf("%s is %s", name, text)
		}
	}
}

// nested makes folders inside each other; one at a time, for no system call takes such
// a path.
func nested(t *testing.T, dir string, deep int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	for range deep {
		if err != nil {
			t.Fatal(err)
		}
		err = root.Mkdir("d", 0o755)
		if err == nil {
			var next *os.Root
			next, err = root.OpenRoot("d")
			_ = root.Close()
			root = next
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = root.Close()
}

func TestWhatLiesTooDeepIsSkippedAndRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nested(t, dir, 1000)
	write(t, dir, "file", "x", 0o644)
	archive, packed := pack(t, dir)
	if packed.Entries != 257 || packed.Skipped != 1 || !strings.Contains(packed.Examples[0], "256 folders deep") {
		t.Errorf("packed %+v", packed)
	}
	if _, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), t.TempDir(), limits); err != nil {
		t.Error(err)
	}
	var deep bytes.Buffer
	out := tar.NewWriter(&deep)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("d/", 256) + "f", Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := workspace.Unpack(t.Context(), &deep, to, limits); err == nil || !strings.Contains(err.Error(), "256 folders deep") {
		t.Errorf("a path of 257 names: %v", err)
	}
	if got := tree(t, to); len(got) != 0 {
		t.Errorf("%d entries were made", len(got))
	}
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

func TestFoldersThatAnArchiveImpliesAreCounted(t *testing.T) {
	t.Parallel()
	var entries []entry
	for i := range 20 { // a file and 100 folders each
		entries = append(entries, entry{tar.Header{Name: fmt.Sprintf("%d/%sx", i, strings.Repeat("d/", 99))}, ""})
	}
	dir := t.TempDir()
	n, err := workspace.Unpack(t.Context(), bytes.NewReader(archiveOf(t, entries...)), dir, limits)
	if err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%d entries, %v", n, err)
	}
	if made := len(tree(t, dir)); made > limits.Entries {
		t.Errorf("%d files and folders were made", made)
	}
	twice := archiveOf(t, entry{tar.Header{Name: "d/e/f"}, "x"}, entry{tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o750}, ""})
	if n, err := workspace.Unpack(t.Context(), bytes.NewReader(twice), t.TempDir(), limits); n != 3 || err != nil {
		t.Errorf("a folder that is implied and then named: %d entries, %v", n, err)
	}
}

func TestFoldersOfWhatIsNotIgnoredAreKept(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, from, workspace.IgnoreFile, "web\n!web/src/keep\n", 0o644)
	write(t, from, "web/src/keep", "x", 0o644)
	write(t, from, "web/src/drop", "x", 0o644)
	write(t, from, "web/else/drop", "x", 0o644)
	if err := os.Chmod(filepath.Join(from, "web/src"), 0o750); err != nil {
		t.Fatal(err)
	}
	archive, packed := pack(t, from)
	n, err := workspace.Unpack(t.Context(), bytes.NewReader(archive), to, limits)
	if err != nil || n != packed.Entries {
		t.Fatalf("%d entries of %+v, %v", n, packed, err)
	}
	want := tree(t, from)
	for _, name := range []string{"web/src/drop", "web/else", "web/else/drop"} {
		delete(want, name)
	}
	if diff := cmp.Diff(want, tree(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestRemovingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "in")
	for i := range 1000 {
		write(t, dir, fmt.Sprintf("%d/x", i%10*1000+i), "", 0o600)
	}
	ctx := &fuse{Context: t.Context(), left: 100}
	if err := workspace.Remove(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	left := len(tree(t, dir))
	if left == 0 || left >= 2000 {
		t.Errorf("%d entries are left", left)
	}
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}

// fuse is a context that ends after it was asked so often.
type fuse struct {
	context.Context
	left int
}

func (f *fuse) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestWhatLiesDeepIsRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	nested(t, dir, 1500)
	write(t, dir, ".removing-1/x", "", 0o600) // a name that removing would take
	if err := workspace.Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
