package cli

import (
	"bytes"
	"testing"
)

func TestColumnsLineUpWhateverTheCharactersWidth(t *testing.T) {
	t.Parallel()
	table := newTable("NAME", "STATUS")
	table.row("日本語", cell{"ok", styleGreen})
	table.row("plain", "ok")
	for name, want := range map[painter]string{
		false: "NAME    STATUS\n日本語  ok\nplain   ok\n",
		true:  "\x1b[2mNAME\x1b[0m    \x1b[2mSTATUS\x1b[0m\n日本語  \x1b[32mok\x1b[0m\nplain   ok\n",
	} {
		var out bytes.Buffer
		if err := table.print(&out, name); err != nil || out.String() != want {
			t.Errorf("got %q, want %q, %v", out.String(), want, err)
		}
	}
}
