package claude_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom/internal/claude"
)

// FuzzStream: whatever claude prints, in whatever pieces, nothing panics, no
// line is lost or longer than allowed, and the pieces make no difference.
func FuzzStream(f *testing.F) {
	transcripts, err := filepath.Glob("testdata/transcripts/*.jsonl")
	if err != nil || len(transcripts) == 0 {
		f.Fatalf("transcripts: %v, %v", transcripts, err)
	}
	for _, path := range transcripts {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, 7)
	}
	f.Fuzz(func(t *testing.T, output []byte, piece int) {
		const limit = 1 << 10
		longest, lines := claude.ReadStream(output, piece, limit)
		whole, wholeLines := claude.ReadStream(output, len(output), limit)
		if longest != whole || lines != wholeLines {
			t.Errorf("in pieces of %d: %d lines up to %d bytes; at once: %d up to %d", piece, lines, longest, wholeLines, whole)
		}
		want := 0
		for line := range bytes.SplitSeq(output, []byte("\n")) {
			if len(line) > 0 && len(line) <= limit {
				want++
			}
		}
		if lines != want || longest > limit {
			t.Errorf("%d lines up to %d bytes, want %d lines up to %d", lines, longest, want, limit)
		}
	})
}

// FuzzHints: whatever the hints are, nothing outside the folder is read and no
// more than the limit.
func FuzzHints(f *testing.F) {
	base := f.TempDir()
	work := filepath.Join(base, "work")
	for name, content := range map[string]string{
		"work/a.txt": "inside", "work/sub/b.md": "inside", "work/[x].txt": "inside", "secret.txt": "outside",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	for link, target := range map[string]string{"out": "..", "secret": "../secret.txt", "loop": "."} {
		if err := os.Symlink(target, filepath.Join(work, link)); err != nil {
			f.Fatal(err)
		}
	}
	for _, hint := range []string{"a.txt", "**", "**/*.md", "../secret.txt", "/etc/passwd", "out/secret.txt", "secret", "[", "loop/loop/a.txt", "\x00", "", ".", "a.txt\nsub/b.md"} {
		f.Add(hint)
	}
	f.Fuzz(func(t *testing.T, hint string) {
		names, total, _ := claude.GatherHints(t.Context(), work, strings.Split(hint, "\n"), 10)
		if total > 10 {
			t.Errorf("%d bytes were read, the limit is 10", total)
		}
		for _, name := range names {
			real, err := filepath.EvalSymlinks(filepath.Join(work, name))
			if err != nil || !strings.HasPrefix(real, work+string(filepath.Separator)) {
				t.Errorf("hint %q read %q, which is %q (%v)", hint, name, real, err)
			}
		}
	})
}

// FuzzPrompt: guarding a prompt keeps its text but for invisible characters,
// and it never begins with a slash.
func FuzzPrompt(f *testing.F) {
	work := f.TempDir()
	for _, prompt := range []string{"/clear", " /x", "@/etc/passwd", "a@b.c", "@a/../b", "＠/x", "\x00", "@"} {
		f.Add(prompt)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		guarded := claude.GuardPrompt(prompt, work)
		if strings.HasPrefix(strings.TrimSpace(guarded), "/") || !utf8.ValidString(guarded) {
			t.Errorf("guarded prompt %q", guarded)
		}
		if utf8.ValidString(prompt) && !strings.ContainsAny(prompt, "\x00\u2060") &&
			!strings.HasSuffix(strings.ReplaceAll(guarded, "\u2060", ""), prompt) {
			t.Errorf("guarded prompt %q lost text of %q", guarded, prompt)
		}
	})
}

func TestHints(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	for name, content := range map[string]string{
		"work/old.txt": "0123456789", "work/new.txt": "abcdefghij", "work/sub/deep/x.go": "x", "work/sub/y.go": "y",
		"work/.git/config.go": "hidden", "work/bin.dat": "a\x00b", "secret.txt": "outside",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.txt", filepath.Join(work, "escape.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("new.txt", filepath.Join(work, "alias.txt")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		hints   []string
		limit   int
		want    []string
		total   int
		skipped []string
	}{
		{"in the order they are named", []string{"old.txt", "new.txt"}, 100, []string{"old.txt", "new.txt"}, 20, nil},
		{"the oldest is cut first", []string{"old.txt", "new.txt"}, 14, []string{"old.txt", "new.txt"}, 14, nil},
		{"the oldest is left out when nothing fits", []string{"old.txt", "new.txt"}, 10, []string{"new.txt"}, 10, []string{"old.txt"}},
		{"** goes through folders but not into .git", []string{"**/*.go"}, 100, []string{"sub/deep/x.go", "sub/y.go"}, 2, nil},
		{"named twice is read once", []string{"new.txt", "./new.txt"}, 100, []string{"new.txt"}, 10, nil},
		{"a link inside is followed", []string{"alias.txt"}, 100, []string{"alias.txt"}, 10, nil},
		{"what leads outside is refused", []string{"escape.txt", "../secret.txt", "/etc/passwd", "sub/../../secret.txt"}, 100, nil, 0,
			[]string{"escape.txt", "../secret.txt", "/etc/passwd", "sub/../../secret.txt"}},
		{"folders and binaries are refused", []string{"sub", "bin.dat"}, 100, nil, 0, []string{"sub", "bin.dat"}},
		{"what matches nothing is said", []string{"*.none", "nowhere/*", "["}, 100, nil, 0, []string{"*.none", "nowhere/*", "["}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			names, total, skipped := claude.GatherHints(t.Context(), work, test.hints, test.limit)
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.skipped, skipped); diff != "" {
				t.Errorf("missed (-want +got):\n%s", diff)
			}
			if total != test.total {
				t.Errorf("%d bytes, want %d", total, test.total)
			}
		})
	}
}

func TestJSONOutputForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, " [1]\n": "[1]", "```json\n{}\n```": "{}", "```\n1\n```\n": "1", "\"text\"": `"text"`,
	} {
		if got, problem := claude.JSONOutput(text); got != want || problem != "" {
			t.Errorf("%q: %q, %s; want %q", text, got, problem, want)
		}
	}
	for _, text := range []string{"", "here: {}", "{} {}", "```json\n{}\n``` done", "```{}```", "{a:1}"} {
		if got, problem := claude.JSONOutput(text); problem == "" {
			t.Errorf("%q was taken as %q", text, got)
		}
	}
}
