package contract

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// MaxSearchText is how many bytes of a task are indexed: the beginnings of its prompt and its
// newest output together.
const MaxSearchText = 256 << 10

// TaskText is the searchable text of a task.
type TaskText struct {
	Seq    int64 // order of creation
	ID     string
	Prompt string
	Output string // of the newest result, or its error message
	URL    string // of the output in the blob store; empty when Output has it
}

// ReadContent reads at most so many bytes from the beginning of the content at a URL of the blob
// store.
type ReadContent func(ctx context.Context, url string, most int) (string, error)

// SearchStore maintains the index that answers TaskQuery.Text.
type SearchStore interface {
	// IndexTasks updates the index for a batch of tasks: first those created, ended or removed
	// since the last call, then those older than the index, newest first. Call it again while it
	// returns more. Several processes may call it, at the cost of duplicate work.
	IndexTasks(ctx context.Context, read ReadContent) (n int, more bool, err error)
	// TaskTexts returns the searchable texts of tasks, in any order. It leaves out removed tasks.
	TaskTexts(ctx context.Context, ids []string) ([]TaskText, error)
}

// Cut truncates the texts: half of the limit is for the prompt, more when the output is shorter.
func (t *TaskText) Cut() {
	t.Output = storable.Cut(t.Output, max(MaxSearchText/2, MaxSearchText-len(t.Prompt)))
	t.Prompt = storable.Cut(t.Prompt, MaxSearchText-len(t.Output))
}
