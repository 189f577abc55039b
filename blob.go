package bloom

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Blobs keeps content that is too large for a row, under keys that the server
// alone builds. One suite, internal/blob/blobtest, holds every implementation to this
// contract.
//
// Upload first, commit second: content nobody's row names is allowed and swept
// later, a row that names missing content is not. Safe for concurrent use.
type Blobs interface {
	// Put stores content under key and returns its URL ("file:…", "minio://…").
	// It returns only when the content would survive a power failure. Content
	// whose SHA-256 (hex) or size differs from what is given is refused and
	// leaves nothing behind. Putting the same key again replaces it whole.
	Put(ctx context.Context, key string, content io.Reader, size int64, sha256 string) (url string, err error)
	// Open streams what Put returned url for; NotFound("Artifact content") when
	// it is gone. The caller closes it.
	Open(ctx context.Context, url string) (io.ReadCloser, error)
	// Delete removes content; what is not there is no error.
	Delete(ctx context.Context, url string) error
}

// CheckBlobKey refuses a key that the server itself would never build; every
// implementation of Blobs calls it before it follows a URL.
func CheckBlobKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00:") || strings.HasPrefix(path.Base(key), ".") {
		return fmt.Errorf("%q is no key of an artifact", key)
	}
	return nil
}
