// Package objects stores objects in one bucket of an S3-compatible object storage, such as MinIO. It
// knows neither artifacts nor memory: its callers choose the keys and what the content means.
package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Errors that callers act on. Any other error means that the request failed or that its outcome is
// unknown.
var (
	// ErrNotFound: the object or the bucket does not exist.
	ErrNotFound = errors.New("no such object")
	// ErrConflict: the object is not, or no longer, the one that the caller read.
	ErrConflict = errors.New("the object was changed by someone else")
	// ErrStalled: a request was aborted because less than 1 KiB per second was transferred for
	// Config.Stall.
	ErrStalled = errors.New("the object storage stalled")
)

const (
	// MaxSmall is the largest object that Read and Swap handle, in bytes.
	MaxSmall = 1 << 20
	// DefaultStall leaves the storage time to assemble a large object.
	DefaultStall = 30 * time.Second
	// DefaultTries is how often the library tries one request; callers may retry further.
	DefaultTries = 3
)

// Config describes the bucket and the credentials.
type Config struct {
	// Endpoint is host:port, without a scheme.
	Endpoint             string
	AccessKey, SecretKey string
	// Region is "us-east-1" when empty.
	Region string
	Bucket string
	// TLS uses https.
	TLS bool
	// Transport sends the requests; nil means the library's transport.
	Transport http.RoundTripper
	// Stall is how long a request may transfer less than 1 KiB per second before it fails with
	// ErrStalled; DefaultStall when 0.
	Stall time.Duration
	// Tries is how often the library tries a failing request; DefaultTries when 0.
	Tries int
}

// Bucket is one bucket. It is safe for concurrent use.
type Bucket struct {
	client    *minio.Client
	transport http.RoundTripper
	config    Config
	name      string
	region    string
}

// Info is an object's metadata.
type Info struct {
	Key      string
	Size     int64 // bytes
	ETag     string
	Modified time.Time
}

// Open returns the bucket without making a request; see Probe.
func Open(c Config) (*Bucket, error) {
	c.Region = cmp.Or(c.Region, "us-east-1")
	c.Stall, c.Tries = cmp.Or(c.Stall, DefaultStall), cmp.Or(c.Tries, DefaultTries)
	if c.Transport == nil {
		own, err := minio.DefaultTransport(c.TLS)
		if err != nil {
			return nil, fmt.Errorf("object storage: %w", err)
		}
		c.Transport = own
	}
	client, err := minio.New(c.Endpoint, &minio.Options{
		Creds:      credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""),
		Secure:     c.TLS,
		Region:     c.Region,
		MaxRetries: c.Tries,
		Transport:  &stallGuard{next: c.Transport, limit: c.Stall},
	})
	if err != nil {
		return nil, fmt.Errorf("object storage at %q: %w", c.Endpoint, err)
	}
	return &Bucket{client: client, transport: c.Transport, config: c, name: c.Bucket, region: c.Region}, nil
}

// FailFast returns the same bucket, sharing its connections, for callers that cannot wait: each
// request is tried once and may stall for at most this long.
func (b *Bucket) FailFast(stall time.Duration) (*Bucket, error) {
	c := b.config
	c.Stall, c.Tries = stall, 1
	return Open(c)
}

// Sibling returns another bucket of the same storage.
func (b *Bucket) Sibling(name string) *Bucket {
	other := *b
	other.name = name
	return &other
}

// Close closes idle connections. The bucket stays usable.
func (b *Bucket) Close() {
	if t, ok := b.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.name }

// Ensure creates the bucket if it does not exist.
func (b *Bucket) Ensure(ctx context.Context) error {
	exists, err := b.client.BucketExists(ctx, b.name)
	if err != nil {
		return fmt.Errorf("check bucket %s: %w", b.name, err)
	}
	if exists {
		return nil
	}
	err = b.client.MakeBucket(ctx, b.name, minio.MakeBucketOptions{Region: b.region})
	switch minio.ToErrorResponse(err).Code {
	case "BucketAlreadyOwnedByYou", "BucketAlreadyExists":
		return nil // another process has just created it
	}
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", b.name, err)
	}
	return nil
}

// Reach returns an error unless the storage answers and has the bucket.
func (b *Bucket) Reach(ctx context.Context) error {
	exists, err := b.client.BucketExists(ctx, b.name)
	if err == nil && !exists {
		err = ErrNotFound
	}
	return err
}

// translate wraps the errors that callers act on.
func translate(err error) error {
	if err == nil {
		return nil
	}
	res := minio.ToErrorResponse(err)
	switch {
	case res.StatusCode == http.StatusNotFound || res.Code == "NoSuchKey" || res.Code == "NoSuchBucket":
		return fmt.Errorf("%w (%w)", ErrNotFound, err)
	case res.StatusCode == http.StatusPreconditionFailed || res.Code == "PreconditionFailed" || res.Code == "ConditionalRequestConflict":
		return fmt.Errorf("%w (%w)", ErrConflict, err)
	}
	return err
}
