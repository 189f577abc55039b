package bloom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// ErrBlobsAway says that content could not be stored because the storage does not
// answer or refuses. Whoever has another place for it may use that.
var ErrBlobsAway = errors.New("the artifact storage is not available")

// ErrContentDiffers says that content is not what was announced: another size, or
// another digest.
var ErrContentDiffers = errors.New("the content is not what was announced")

// Blobs keeps content that is too large for a row, under keys that the server
// alone builds. One suite, internal/blob/blobtest, holds every implementation to this
// contract.
//
// Upload first, commit second: content nobody's row names is allowed and swept
// later, a row that names missing content is not. Safe for concurrent use.
type Blobs interface {
	// Put stores content under key and returns its URL ("file:…", "database:…", "minio://…").
	// It returns only when the content would survive a power failure. Content
	// whose SHA-256 (hex) or size differs from what is given is refused with
	// ErrContentDiffers and leaves nothing behind. Putting the same key again replaces it whole.
	Put(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Open streams what Put returned url for; NotFound("Artifact content") when
	// it is gone. The caller closes it.
	Open(ctx context.Context, url string) (io.ReadCloser, error)
	// OpenRange is Open of length bytes from offset on, all the rest when length is
	// below 0. What lies beyond the end is not there: the stream is shorter then, or
	// the call fails.
	OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error)
	// Stat returns the key under which Put puts what it returns url for, "" when it
	// returns no such url, and the content's size in bytes; NotFound("Artifact content")
	// when there is none.
	Stat(ctx context.Context, url string) (key string, size int64, err error)
	// Delete removes content; what is not there is no error.
	Delete(ctx context.Context, url string) error
	// List calls fn for everything that is stored under keys that begin with prefix, in
	// no promised order, with how long ago it was put there last. It stops at fn's error.
	List(ctx context.Context, prefix string, fn func(url string, age time.Duration) error) error
}

// Kinds of artifact storage.
const (
	BlobsLocal = "local"
	BlobsS3    = "s3"
)

// BlobState is what is known of the storage of artifacts.
type BlobState struct {
	Kind      string   `json:"kind" enum:"local,s3"`
	Connected bool     `json:"connected" doc:"Whether the last use of the storage worked"`
	Can       []string `json:"can" nullable:"false" doc:"What the storage was found to do when it was probed: write, conditional_write, read, delete"`
	LastError *string  `json:"last_error"`
	// Waiting is nil where nothing ever has to be moved.
	Waiting *int64 `json:"waiting,omitempty" doc:"Artifacts, and contexts with their transcripts and working folders, that are kept elsewhere until they can be moved to the object storage; 10000 stands for that or more"`
}

// BlobAbilities are what a storage of artifacts may be found to do.
var BlobAbilities = []string{"write", "conditional_write", "read", "delete"}

// CanDo reports whether the storage was found to do something.
func (s BlobState) CanDo(ability string) bool { return slices.Contains(s.Can, ability) }

// MaxWaiting is up to how many artifacts and contexts that wait to be moved are counted.
const MaxWaiting = 10_000

// CheckBlobKey refuses a key that the server itself would never build; every
// implementation of Blobs calls it before it follows a URL.
func CheckBlobKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00:") || strings.HasPrefix(path.Base(key), ".") {
		return fmt.Errorf("%q is no key of an artifact", key)
	}
	return nil
}
