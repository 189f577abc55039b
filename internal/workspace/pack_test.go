package workspace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

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

func TestOutsideLinksAndSpecialFilesAreNotPacked(t *testing.T) {
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

// nested creates folders inside each other, one at a time, because no system call accepts such a
// path.
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

func TestTooDeepEntriesAreSkippedAndRefused(t *testing.T) {
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
