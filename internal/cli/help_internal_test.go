package cli

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestTheExamplesOfThePagesAreRight(t *testing.T) {
	t.Parallel()
	sys := System{Out: io.Discard, Err: io.Discard, Hostname: "host", Env: func(string) (string, bool) { return "", false }}
	words := regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s|)>&]+|[|)>&#]`)
	n := 0
	for line := range strings.Lines(pages) {
		at := strings.Index(line, "bloom ")
		if !strings.HasPrefix(line, "\t") || at < 0 {
			continue
		}
		var args []string
		for _, word := range words.FindAllString(line[at+len("bloom "):], -1) {
			if strings.ContainsAny(word[:1], "|)>&#") {
				break
			}
			args = append(args, strings.Trim(word, `'"`))
		}
		var root commands
		parser, _, err := newParser(&root, args, sys)
		if err != nil {
			t.Fatal(err)
		}
		var kctx *kong.Context
		if args[0] == "help" { // its page is printed while it is parsed
			continue
		}
		if kctx, err = parser.Parse(meant(args, parser.Model.Node)); err == nil {
			err = checkGiven(kctx)
		}
		if err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
		n++
	}
	if n < 60 {
		t.Errorf("only %d examples", n)
	}
}
