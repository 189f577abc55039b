// Package objects keeps bytes under keys in one bucket of an S3-compatible object
// storage, such as MinIO. It knows neither artifacts nor memory: who uses it decides
// on keys and on what the bytes mean.
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

// Errors that callers act on. All others mean that the storage did not do what it
// was asked, or that nobody knows whether it did.
var (
	// ErrNotFound: there is no object under that key, or no bucket.
	ErrNotFound = errors.New("no such object")
	// ErrConflict: the object is not, or no longer, the one that the caller has seen.
	ErrConflict = errors.New("the object was changed by someone else")
	// ErrStalled: a request was given up because nothing moved for Config.Stall.
	ErrStalled = errors.New("the object storage stalled")
)

const (
	// MaxSmall bounds what Read and Swap handle, in bytes.
	MaxSmall = 1 << 20
	// DefaultStall leaves time for the storage to put a large object together.
	DefaultStall = 30 * time.Second
	// DefaultTries of one request by the library; the caller decides about more.
	DefaultTries = 3
)

// Config says where the bucket is and who asks.
type Config struct {
	// Endpoint is host:port, without a scheme.
	Endpoint             string
	AccessKey, SecretKey string
	// Region is "us-east-1" when empty.
	Region string
	Bucket string
	// TLS asks for https.
	TLS bool
	// Transport replaces the way requests are made; nil means the library's.
	Transport http.RoundTripper
	// Stall is how long a request may go without a byte moving before it fails with
	// ErrStalled; DefaultStall when 0.
	Stall time.Duration
	// Tries is how often the library makes a request that failed; DefaultTries when 0.
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

// Info is what the storage knows of an object.
type Info struct {
	Key      string
	Size     int64 // bytes
	ETag     string
	Modified time.Time
}

// Open returns the bucket without a request to it: see Probe.
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

// Impatient is the same bucket, over the same connections, for callers who have
// something else to do: each request is made once and may stall for at most this long.
func (b *Bucket) Impatient(stall time.Duration) (*Bucket, error) {
	c := b.config
	c.Stall, c.Tries = stall, 1
	return Open(c)
}

// Other is another bucket of the same storage.
func (b *Bucket) Other(name string) *Bucket {
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

// Name is the bucket's name.
func (b *Bucket) Name() string { return b.name }

// Ensure makes the bucket when it is missing.
func (b *Bucket) Ensure(ctx context.Context) error {
	there, err := b.client.BucketExists(ctx, b.name)
	if err != nil {
		return fmt.Errorf("look for bucket %s: %w", b.name, err)
	}
	if there {
		return nil
	}
	err = b.client.MakeBucket(ctx, b.name, minio.MakeBucketOptions{Region: b.region})
	switch minio.ToErrorResponse(err).Code {
	case "BucketAlreadyOwnedByYou", "BucketAlreadyExists":
		return nil // another one made it at the same moment
	}
	if err != nil {
		return fmt.Errorf("make bucket %s: %w", b.name, err)
	}
	return nil
}

// Reach reports whether the storage answers and has the bucket.
func (b *Bucket) Reach(ctx context.Context) error {
	there, err := b.client.BucketExists(ctx, b.name)
	if err == nil && !there {
		err = ErrNotFound
	}
	return err
}

// known gives errors that callers act on their own names.
func known(err error) error {
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
