package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// ErrUnavailable is returned when content could not be stored because the storage does not
// answer or refuses writes. The caller may store the content elsewhere.
var ErrUnavailable = errors.New("the artifact storage is not available")

// ErrMismatch is returned for content whose size or digest differs from what was declared.
var ErrMismatch = errors.New("the content does not match its declared size or digest")

// Blobs stores content that is too large for a row, under keys that only the server builds. Every
// implementation passes the suite in internal/blob/blobtest.
//
// Upload first, then commit: content that no row refers to is allowed and removed later; a row that
// refers to missing content is not. Safe for concurrent use.
type Blobs interface {
	// Put stores content under key and returns its URL ("file:…", "database:…", "minio://…"). When
	// it returns, the content survives a power failure. Content with another SHA-256 (hex) or size
	// than given is refused with ErrContentMismatch and leaves nothing behind. Putting the same key
	// again replaces its content.
	Put(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Open streams the content at a URL that Put returned; NotFound("Artifact content") when it
	// does not exist. The caller closes it.
	Open(ctx context.Context, url string) (io.ReadCloser, error)
	// OpenRange opens length bytes from offset on, or everything from offset on when length is
	// negative. Beyond the end of the content the stream is shorter, or the call fails.
	OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error)
	// Stat returns the key of the content at url, or "" when Put never returns such a URL, and the
	// content's size in bytes; NotFound("Artifact content") when it does not exist.
	Stat(ctx context.Context, url string) (key string, size int64, err error)
	// Delete removes content; deleting missing content is not an error.
	Delete(ctx context.Context, url string) error
	// List calls fn for everything that was stored on a day (UTC, like 20260102), or ever with "", in
	// no particular order, with its key and the time since it was last written. It lists nothing of
	// another installation. It stops when fn returns an error.
	List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error
}

// Abilities lists the operations that a storage is probed for.
var Abilities = []string{"write", "conditional_write", "read", "delete"}

// CheckKey returns an error for a key that the server would never build. Every implementation
// of Blobs calls it before it follows a URL.
func CheckKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00:") || strings.HasPrefix(path.Base(key), ".") {
		return fmt.Errorf("%q is not a valid artifact key", key)
	}
	return nil
}
