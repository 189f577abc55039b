package dispatch

import (
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// counted returns "1 task", "n tasks" or, if there are more, "n or more tasks".
func counted(n int64, more bool, one string) string {
	switch {
	case more:
		return fmt.Sprintf("%d or more %ss", n, one)
	case n == 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// verb returns the form that agrees with a count.
func verb(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func theLabels(labels []string) string {
	return verb(int64(len(labels)), "the label ", "the labels ") + strings.Join(labels, ", ")
}

func gib(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 UTC") }

// some lists names in a sentence.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

func bounded20(names []string) []string { return names[:min(len(names), bloom.MaxProblemNames)] }
