package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
)

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
