package bloom

import "context"

// MaxSearchText is how many bytes of a task's prompt and newest output are searched:
// the beginnings of both together.
const MaxSearchText = 256 << 10

// MaxSearchPage is how many tasks one page of a search lists at most.
const MaxSearchPage = 100

// Snippet shows where a search found a task.
type Snippet struct {
	In    string        `json:"in" enum:"prompt,output" doc:"Which text it is from"`
	Parts []SnippetPart `json:"parts" nullable:"false" doc:"One after the other they are the snippet. Plain text: escape it"`
}

// SnippetPart is a piece of a snippet that matches the search, or does not.
type SnippetPart struct {
	Text  string `json:"text"`
	Match bool   `json:"match"`
}

// TaskText is what is searched of a task.
type TaskText struct {
	Seq    int64 // its place among all tasks
	ID     string
	Prompt string
	Output string // of the newest result, or its error message
	URL    string // where the output lies in the blob store; empty when Output has it
}

// ReadContent reads at most so many bytes from the beginning of what lies at a URL of
// the blob store.
type ReadContent func(ctx context.Context, url string, most int) (string, error)

// SearchStore keeps the index by which TaskQuery.Text is answered.
type SearchStore interface {
	// IndexTasks brings a batch of tasks up to date in the index: those that were
	// created, ended or removed since, then those that are older than the index, the
	// newest first. It is called again while it answers with more. Any number of
	// processes may call it, at the cost of doing work twice.
	IndexTasks(ctx context.Context, read ReadContent) (n int, more bool, err error)
	// TaskTexts reads what is searched of tasks, in any order; those that are gone are
	// left out.
	TaskTexts(ctx context.Context, ids []string) ([]TaskText, error)
}

// Cut bounds what is searched of a task: half of it is for the prompt, unless the
// output leaves more.
func (t *TaskText) Cut() {
	t.Output, _ = cutTo(t.Output, max(MaxSearchText/2, MaxSearchText-len(t.Prompt)))
	t.Prompt, _ = cutTo(t.Prompt, MaxSearchText-len(t.Output))
}
