package fulltext_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom/internal/fulltext"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Hello, World! main.go foo_bar": "hello world main go foo bar",
		"Привіт, СВІТЕ: їжак":           "привіт світе їжак",
		"и\u0306од":                     "йод", // decomposed
		"東京タワー 2026":                    "東 京 タ ワ ー 2026",
		"":                              "",
		"... --- \xff\xfe":              "",
		strings.Repeat("x", 1000):       strings.Repeat("x", 128),
		"naïve café":                    "naïve café",
		"हिन्दी":                        "हिन्दी",
		"<script>alert(1)</script>":     "script alert 1 script",
	} {
		if got := fulltext.Join(text); got != want {
			t.Errorf("the words of %q are %q, want %q", text, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	show := func(q fulltext.Query) string {
		var terms []string
		for _, t := range q.Terms {
			s := strings.Join(t.Words, "+")
			if t.Prefix {
				s += "*"
			}
			terms = append(terms, s)
		}
		return strings.Join(terms, " ")
	}
	for text, want := range map[string]string{
		"":                        "",
		`"`:                       "",
		`***"" :: && | ! ( ) <->`: "",
		"fix parser":              "fix parser*",
		"fix parser ":             "fix parser",
		`"fix the parser"`:        "fix+the+parser",
		`go "fix the parser" te`:  "go fix+the+parser te*",
		`go "fix the par`:         "go fix+the+par",
		"foo-bar":                 "foo+bar*",
		"wor* done ":              "wor* done",
		"NOT a OR b'c":            "not a or b+c*",
		"東京":                      "東+京*",
		`"same" same`:             "same same*",
	} {
		if got := show(fulltext.Parse(text)); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
	if long := fulltext.Parse(strings.Repeat("a b c d e f g h i j ", 1000)); len(long.Terms) != 8 {
		t.Errorf("a long query has %d terms", len(long.Terms))
	}
	if same := fulltext.Parse(strings.Repeat(`"a a" `, 1000)); len(same.Terms) != 1 {
		t.Errorf("a repeated phrase has %d terms", len(same.Terms))
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	show := func(q, text string) string {
		parts, _ := fulltext.Parse(q).Snippet(text)
		var b strings.Builder
		for _, p := range parts {
			if p.Match {
				b.WriteString("[" + p.Text + "]")
			} else {
				b.WriteString(p.Text)
			}
		}
		return b.String()
	}
	for _, c := range []struct{ q, text, want string }{
		{"pars", "Fix the Parser,\n\n now", "Fix the [Parser], now"},
		{`"fix the" now`, "fix it, fix THE parser now", "fix it, [fix THE] parser [now]"},
		{"missing", "nothing here", ""},
		{"script", "<script>alert(1)</script>", "<[script]>alert(1)</[script]>"},
		{"світ", "Привіт, світе", "Привіт, [світе]"},
	} {
		if got := show(c.q, c.text); got != c.want {
			t.Errorf("%q in %q is shown as %q, want %q", c.q, c.text, got, c.want)
		}
	}
	long := strings.Repeat("дерево ", 5000) + "needle " + strings.Repeat("трава ", 5000)
	got := show("needle", long)
	if !strings.Contains(got, "[needle]") || len(got) > 300 || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") || !utf8.ValidString(got) {
		t.Errorf("of a long text %q is shown", got)
	}
	if got := show("alpha beta", "alpha "+strings.Repeat("x ", 300)+"alpha and beta"); !strings.Contains(got, "[alpha] and [beta]") {
		t.Errorf("where most terms are is not shown: %q", got)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add(`go "fix the par* x`, "Fix the parser")
	f.Add("\xff\"*", "\xffa\x00")
	f.Fuzz(func(t *testing.T, q, text string) {
		parsed := fulltext.Parse(q)
		for _, term := range parsed.Terms {
			if len(term.Words) == 0 || slices.ContainsFunc(term.Words, func(w string) bool { return w == "" || strings.ContainsAny(w, "\"' *\\:&|!()\x00") }) {
				t.Errorf("%q has the term %q", q, term.Words)
			}
		}
		parsed.Snippet(text)
	})
}

// Not parallel: it counts the process's allocations.
func TestSnippetKeepsFewWordsInMemory(t *testing.T) {
	few, many := strings.Repeat("tree ", 1000), strings.Repeat("tree ", 50_000)
	for _, q := range []string{"missing", "tree", "tree missing", `"tree tree leaf" tree`} {
		query := fulltext.Parse(q)
		count := func(text string) float64 { return testing.AllocsPerRun(5, func() { query.Snippet(text) }) }
		if short, long := count(few), count(many); long > short+5 {
			t.Errorf("%q allocates %.0f times in a long text, %.0f times in a short one", q, long, short)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		query.Snippet(many)
		runtime.ReadMemStats(&after)
		if size := after.TotalAlloc - before.TotalAlloc; size > 64<<10 {
			t.Errorf("%q allocates %d bytes", q, size)
		}
	}
}

func BenchmarkSnippet(b *testing.B) {
	text := strings.Repeat("tree ", 50_000)
	for _, q := range []string{"missing", "tree", "tree missing"} {
		query := fulltext.Parse(q)
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				query.Snippet(text)
			}
		})
	}
}
