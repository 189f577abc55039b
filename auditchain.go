package bloom

// ChainHead is the last entry of the chain.
type ChainHead struct {
	Seq  int64  `json:"seq" doc:"Of the last chained entry; 0 when there is none"`
	Hash string `json:"hash"`
}

// ChainPlace is a ChainLink on the wire.
type ChainPlace struct {
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash" doc:"Empty: the entry is not chained yet"`
	RemovedAt int64  `json:"removed_at,omitempty" doc:"When retention removed the entry, Unix milliseconds"`
	Canonical string `json:"canonical,omitempty" doc:"The entry's canonical JSON, which its hash covers byte by byte"`
}

// ChainPart is a part of the chain on the wire.
type ChainPart struct {
	Head  ChainHead    `json:"head"`
	Prev  ChainPlace   `json:"prev" doc:"The position before the first of links"`
	Links []ChainPlace `json:"links" nullable:"false" doc:"Oldest first; empty at the end"`
	// Exported and Branch are not younger than the links.
	Exported int64 `json:"exported" doc:"Seq of the last entry that was written to a file"`
	Branch   int   `json:"branch" doc:"How often a backup was restored: new files are of this branch"`
}
