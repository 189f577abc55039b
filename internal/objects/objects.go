// Package objects keeps bytes under keys in one bucket of an S3-compatible object
// storage, such as MinIO. It knows neither artifacts nor memory: who uses it decides
// on keys and on what the bytes mean.
package objects

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
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

// Read returns a small object whole.
func (b *Bucket) Read(ctx context.Context, key string) ([]byte, Info, error) {
	r, info, err := b.Open(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxSmall+1))
	if err != nil {
		return nil, Info{}, known(err)
	}
	if len(data) > MaxSmall {
		return nil, Info{}, fmt.Errorf("%s is larger than the %d bytes expected here", key, MaxSmall)
	}
	return data, info, nil
}

// Open streams an object, which the caller closes.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	// The library's own reader asks twice, and fails where the object was replaced
	// in between.
	core := minio.Core{Client: b.client}
	object, info, _, err := core.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, Info{}, known(err)
	}
	return object, infoOf(info), nil
}

// OpenRange streams length bytes of an object from offset on, or all the rest for a
// length below 0. The caller closes it.
func (b *Bucket) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	var opts minio.GetObjectOptions
	if length >= 0 {
		opts.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	} else {
		opts.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	core := minio.Core{Client: b.client}
	object, _, _, err := core.GetObject(ctx, b.name, key, opts)
	if err != nil {
		return nil, known(err)
	}
	return object, nil
}

// Link is an address from which anybody can read the object until valid is over. The
// answer has the given media type and is saved under name. It makes no request.
func (b *Bucket) Link(ctx context.Context, key string, valid time.Duration, mediaType, name string) (string, error) {
	answer := url.Values{"response-content-type": {mediaType}, "response-content-disposition": {mime.FormatMediaType("attachment", map[string]string{"filename": name})}}
	u, err := b.client.PresignedGetObject(ctx, b.name, key, valid, answer)
	if err != nil {
		return "", known(err)
	}
	return u.String(), nil
}

// AbortUploads removes the parts of uploads that began before then and never ended.
// Storages that do so by themselves show none.
func (b *Bucket) AbortUploads(ctx context.Context, prefix string, before time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for up := range b.client.ListIncompleteUploads(ctx, b.name, prefix, true) {
		if err := known(up.Err); errors.Is(err, ErrNotFound) {
			return nil // so some storages say that there are none
		} else if err != nil {
			return err
		}
		if up.Initiated.Before(before) {
			if err := b.client.RemoveIncompleteUpload(ctx, b.name, up.Key); err != nil {
				return known(err)
			}
		}
	}
	return nil
}

// Stat says what is under key.
func (b *Bucket) Stat(ctx context.Context, key string) (Info, error) {
	info, err := b.client.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, known(err)
	}
	return infoOf(info), nil
}

// Upload streams content under key, whatever was there. Large content goes in
// parts, of which a failed upload leaves none behind.
func (b *Bucket) Upload(ctx context.Context, key string, content io.Reader, size int64, mediaType string) (Info, error) {
	up, err := b.client.PutObject(ctx, b.name, key, content, size, minio.PutObjectOptions{ContentType: mediaType})
	if err != nil {
		return Info{}, known(err)
	}
	return Info{Key: key, Size: up.Size, ETag: up.ETag}, nil
}

// Swap writes a small object on the condition that the one under key still has this
// ETag, or, for an empty ETag, that there is none: ErrConflict otherwise. A write
// whose answer was lost and that is repeated counts as done, so data has to differ
// from what another writer would write.
func (b *Bucket) Swap(ctx context.Context, key string, data []byte, etag string) (Info, error) {
	opts := minio.PutObjectOptions{ContentType: "application/json"}
	if etag == "" {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(etag)
	}
	up, err := b.client.PutObject(ctx, b.name, key, bytes.NewReader(data), int64(len(data)), opts)
	if err == nil {
		return Info{Key: key, Size: up.Size, ETag: up.ETag}, nil
	}
	if err = known(err); !errors.Is(err, ErrConflict) && !(errors.Is(err, ErrNotFound) && etag != "") {
		return Info{}, err
	}
	if now, info, readErr := b.Read(ctx, key); readErr == nil && bytes.Equal(now, data) {
		return info, nil
	}
	return Info{}, ErrConflict
}

// Copy copies an object inside the bucket, without its bytes passing through here.
func (b *Bucket) Copy(ctx context.Context, from, to string) error {
	_, err := b.client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: b.name, Object: to},
		minio.CopySrcOptions{Bucket: b.name, Object: from})
	return known(err)
}

// Remove deletes an object; none is no error.
func (b *Bucket) Remove(ctx context.Context, key string) error {
	err := known(b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// List yields the objects whose keys begin with prefix, in the order of their keys.
func (b *Bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for object := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if !yield(infoOf(object), known(object.Err)) || object.Err != nil {
				return
			}
		}
	}
}

func infoOf(o minio.ObjectInfo) Info {
	return Info{Key: o.Key, Size: o.Size, ETag: o.ETag, Modified: o.LastModified}
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
