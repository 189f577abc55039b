package bloom

import (
	"slices"
)

// Kinds of artifact storage.
const (
	BlobsLocal = "local"
	BlobsS3    = "s3"
)

// BlobState describes the artifact storage.
type BlobState struct {
	Kind      string   `json:"kind" enum:"local,s3"`
	Connected bool     `json:"connected" doc:"Whether the last use of the storage worked"`
	Can       []string `json:"can" nullable:"false" doc:"The operations that worked when the storage was probed: write, conditional_write, read, delete"`
	LastError *string  `json:"last_error"`
	// Waiting is nil where artifacts never have to be moved.
	Waiting *int64 `json:"waiting,omitempty" doc:"Artifacts, and contexts with their transcripts and working folders, that are kept elsewhere until they can be moved to the object storage; 10000 means 10000 or more"`
}

// CanDo reports whether an operation worked when the storage was probed.
func (s BlobState) CanDo(ability string) bool { return slices.Contains(s.Can, ability) }
