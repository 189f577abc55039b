package workspace_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

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
		_, _ = io.WriteString(w, e.content) // shorter than the header says, in one of the cases
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

// A sparse file takes no space in an archive, and all of its size on the disk.
func TestFilesOfHolesAreBounded(t *testing.T) {
	t.Parallel()
	// The writer does not support sparse files, so the names of their records are completed
	// afterwards.
	marks := map[string]string{"XNU.sparse.major": "1", "XNU.sparse.minor": "0", "XNU.sparse.name": "zeros", "XNU.sparse.realsize": fmt.Sprint(limits.Bytes + 1)}
	of := func(content string) []byte {
		archive := archiveOf(t, entry{tar.Header{Name: "sparse", PAXRecords: marks, Format: tar.FormatPAX}, content})
		return bytes.ReplaceAll(archive, []byte("XNU.sparse."), []byte("GNU.sparse."))
	}
	noData := "0\n" + strings.Repeat("\x00", 510) // the map of its parts is empty
	dir := t.TempDir()
	_, err := workspace.Unpack(t.Context(), bytes.NewReader(of(noData)), dir, limits)
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Errorf("%d entries were made", len(got))
	}
	more := workspace.Limits{Bytes: 2 * limits.Bytes, Entries: 1}
	if n, err := workspace.Unpack(t.Context(), bytes.NewReader(of(noData)), dir, more); n != 1 || err != nil {
		t.Errorf("with a limit that it keeps: %d entries, %v", n, err)
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
