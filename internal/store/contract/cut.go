package contract

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// CutContent truncates content that is longer than n bytes and marks it as truncated; 0 means no
// limit.
func CutContent(a *bloom.Artifact, n int) {
	if n > 0 && a.Content != nil {
		short := storable.Cut(*a.Content, n)
		a.ContentTruncated, a.Content = len(short) < len(*a.Content), &short
	}
}

// CutOutput truncates an output that is longer than n bytes and marks it as truncated.
func CutOutput(r *bloom.Result, n int) {
	if r.Output != nil {
		short := storable.Cut(*r.Output, n)
		r.OutputTruncated, r.Output = len(short) < len(*r.Output), &short
	}
}

// CutPrompt truncates texts that are longer than n bytes and marks them as truncated; 0 means no
// limit. Hints that a store left out for their length are nil.
func CutPrompt(t *bloom.Task, n int) {
	if n <= 0 {
		return
	}
	short := storable.Cut(t.Prompt, n)
	t.PromptTruncated, t.Prompt = len(short) < len(t.Prompt), short
	if t.ContextHints == nil {
		t.ContextHints, t.HintsTruncated = []string{}, true
	}
}
