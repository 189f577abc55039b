package contract

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// CutContent truncates content that is longer than n bytes and marks it as truncated; 0 means no
// limit.
func CutContent(a *bloom.Artifact, n int) {
	if n > 0 && a.Content != nil {
		short, cut := storable.Cut(*a.Content, n)
		a.Content, a.ContentTruncated = &short, cut
	}
}

// CutOutput truncates an output that is longer than n bytes and marks it as truncated.
func CutOutput(r *bloom.Result, n int) {
	if r.Output != nil {
		short, cut := storable.Cut(*r.Output, n)
		r.Output, r.OutputTruncated = &short, cut
	}
}

// CutPrompt truncates texts that are longer than n bytes and marks them as truncated; 0 means no
// limit. Hints that a store left out for their length are nil.
func CutPrompt(t *bloom.Task, n int) {
	if n <= 0 {
		return
	}
	t.Prompt, t.PromptTruncated = storable.Cut(t.Prompt, n)
	if t.ContextHints == nil {
		t.ContextHints, t.HintsTruncated = []string{}, true
	}
}
