package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	pretty "github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// columnsOf returns the width of a terminal; 0 if it is unknown.
func columnsOf(f *os.File) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	n, _, _ := term.GetSize(int(f.Fd()))
	return n
}

// Styles as colours of the terminal's palette, so that the user's theme applies.
const (
	styleDim    = "2"
	styleBold   = "1"
	styleRed    = "31"
	styleGreen  = "32"
	styleYellow = "33"
	styleCyan   = "36"
)

// painter colours text for one stream, or leaves it alone.
type painter bool

func (p painter) paint(style, text string) string {
	if !p || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (inv *invocation) outPainter() painter { return painter(inv.colour && inv.OutTerminal) }
func (inv *invocation) errPainter() painter { return painter(inv.colour && inv.ErrTerminal) }

// clean removes control characters from text that others wrote: a task's prompt must not control
// the terminal of the user who lists it.
func clean(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case lines && (r == '\n' || r == '\t'):
			return r
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || r == utf8.RuneError:
			return '\uFFFD'
		case r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069':
			return '\uFFFD' // changes the direction of the text
		}
		return r
	}, s)
}

// oneLine returns the beginning of a text in one line of at most n characters.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(clean(s, false)), " ")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// cell is one field of a table.
type cell struct{ text, style string }

// table collects rows and prints them in columns.
type table struct {
	head []string
	rows [][]cell
}

func newTable(head ...string) *table { return &table{head: head} }

// row adds a row; a value is a cell or anything printable.
func (t *table) row(values ...any) {
	cells := make([]cell, len(values))
	for i, v := range values {
		c, ok := v.(cell)
		if !ok {
			c = cell{text: fmt.Sprint(v)}
		}
		c.text = clean(c.text, false)
		cells[i] = c
	}
	t.rows = append(t.rows, cells)
}

func (t *table) print(inv *invocation) error {
	p := inv.outPainter()
	if inv.OutTerminal && t.head[0] != "FIELD" {
		t.fit(inv.Columns)
	}
	out := pretty.NewWriter()
	out.SetStyle(plainStyle)
	head := make(pretty.Row, len(t.head))
	for i, h := range t.head {
		head[i] = p.paint(styleDim, h)
	}
	out.AppendHeader(head)
	for _, row := range t.rows {
		cells := make(pretty.Row, len(row))
		for i, c := range row {
			cells[i] = p.paint(c.style, c.text)
		}
		out.AppendRow(cells)
	}
	out.SuppressTrailingSpaces()
	_, err := fmt.Fprintln(inv.Out, out.Render())
	return err
}

// fit shortens ids to their last 8 characters, which commands accept. If the terminal has no room
// for 24 characters of the last column, columns that say the least are left out. Then the widest
// are cut, names in the first one to no less than 24 characters.
func (t *table) fit(columns int) {
	var widths []int
	for i, h := range t.head {
		widths = append(widths, len(h))
		for _, row := range t.rows {
			row[i].text = wholeID.ReplaceAllString(row[i].text, "$1$2")
			widths[i] = max(widths[i], text.StringWidth(row[i].text))
		}
	}
	excess := func() int {
		sum := len(plainStyle.Box.PaddingRight) * (len(widths) - 1)
		for _, w := range widths {
			sum += w
		}
		return sum - columns
	}
	for i := len(t.head) - 1; columns > 0 && len(t.rows) > 0 && i > 0 && excess() > max(0, widths[len(widths)-1]-24); i-- {
		if t.spare(i) {
			t.head, widths = slices.Delete(t.head, i, i+1), slices.Delete(widths, i, i+1)
			for r := range t.rows {
				t.rows[r] = slices.Delete(t.rows[r], i, i+1)
			}
		}
	}
	for columns > 0 && excess() > 0 {
		widest, width := 0, 8
		for i, w := range widths {
			if w > max(width, len(t.head[i])) && (i > 0 || w > 24) {
				widest, width = i, w
			}
		}
		if width == 8 {
			break
		}
		widths[widest]--
	}
	for i, w := range widths {
		for _, row := range t.rows {
			row[i].text = text.Snip(row[i].text, w, "…")
		}
	}
}

// spare reports whether a column says little: it is empty, has one name in all rows, or is what
// bloom help settings has.
func (t *table) spare(i int) bool {
	first := ""
	switch t.head[i] {
	case "VARIABLE", "FLAG":
		return true
	case "AGENT", "WORKER", "FROM":
		first = t.rows[0][i].text
	}
	return !slices.ContainsFunc(t.rows, func(row []cell) bool {
		return row[i].text != first && (first != "" || row[i].text != "-" && row[i].text != "0")
	})
}

// wholeID matches an id that can be given by its end, also that of a context that this program named.
var wholeID = regexp.MustCompile(`^(?:cli-|(task ))?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{4}([0-9a-f]{8})$`)

// plainStyle is columns and nothing else, for people and for pipes.
var plainStyle = pretty.Style{
	Box:     pretty.BoxStyle{PaddingRight: "  "},
	Format:  pretty.FormatOptions{Header: text.FormatDefault},
	Options: pretty.OptionsNoBordersAndSeparators,
}

// ago returns how long ago a time in Unix milliseconds was, in the largest unit.
func ago(now time.Time, millis int64) string {
	if millis == 0 {
		return "never"
	}
	d := now.Sub(time.UnixMilli(millis))
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// briefly writes 7200 seconds as 2h.
func briefly(seconds int64) string {
	s := (time.Duration(seconds) * time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func bytesSize(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, suffix := float64(n), ""
	for _, suffix = range []string{"KiB", "MiB", "GiB", "TiB"} {
		f /= unit
		if f < unit {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, suffix)
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
