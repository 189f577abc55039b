package cli

import (
	"bytes"
	"slices"
	"testing"
)

func TestColumnsLineUpWhateverTheCharactersWidth(t *testing.T) {
	t.Parallel()
	table := newTable("NAME", "STATUS")
	table.row("日本語", cell{"ok", styleGreen})
	table.row("plain", "ok")
	for colour, want := range map[bool]string{
		false: "NAME    STATUS\n日本語  ok\nplain   ok\n",
		true:  "\x1b[2mNAME\x1b[0m    \x1b[2mSTATUS\x1b[0m\n日本語  \x1b[32mok\x1b[0m\nplain   ok\n",
	} {
		var out bytes.Buffer
		if err := table.print(&invocation{System: System{Out: &out, OutTerminal: true}, colour: colour}); err != nil || out.String() != want {
			t.Errorf("got %q, want %q, %v", out.String(), want, err)
		}
	}
}

func TestAScreenKeepsColoursAndCharactersThatArriveInParts(t *testing.T) {
	t.Parallel()
	const in = "\x1b[32mgrün\x1b[0m 日\n\x1b[8m\u009b1m\xff"
	const want = "\x1b[32mgrün\x1b[0m 日\n\uFFFD[8m\uFFFD1m\uFFFD"
	for size := range 3 {
		var out bytes.Buffer
		s := &screen{w: &out}
		for part := range slices.Chunk([]byte("日本 "), size+1) {
			if n, err := s.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if out.String() != "日本 " {
			t.Errorf("in parts of %d: %q", size+1, out.String())
		}
		out.Reset()
		if _, err := s.Write([]byte(in)); err != nil || out.String() != want {
			t.Errorf("got %q, want %q, %v", out.String(), want, err)
		}
	}
}
