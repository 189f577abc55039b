package bloom

// Snippet shows where a search matched a task.
type Snippet struct {
	In    string        `json:"in" enum:"prompt,output" doc:"Which text it is from"`
	Parts []SnippetPart `json:"parts" nullable:"false" doc:"The snippet in pieces. Plain text: escape it"`
}

// SnippetPart is a piece of a snippet, matching or not.
type SnippetPart struct {
	Text  string `json:"text"`
	Match bool   `json:"match"`
}
