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

// Read returns the content of an object of at most MaxSmall bytes.
func (b *Bucket) Read(ctx context.Context, key string) ([]byte, Info, error) {
	r, info, err := b.Open(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxSmall+1))
	if err != nil {
		return nil, Info{}, translate(err)
	}
	if len(data) > MaxSmall {
		return nil, Info{}, fmt.Errorf("%s is larger than the %d bytes expected here", key, MaxSmall)
	}
	return data, info, nil
}

// Open streams an object; the caller closes it.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	// The library's GetObject makes two requests and fails if the object is replaced between
	// them.
	core := minio.Core{Client: b.client}
	object, info, _, err := core.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, Info{}, translate(err)
	}
	return object, infoOf(info), nil
}

// OpenRange streams length bytes of an object from offset on; a negative length means up to the
// end. The caller closes it.
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
		return nil, translate(err)
	}
	return object, nil
}

// Link returns a presigned URL at which anyone can read the object for the duration valid. The
// response has the given media type, and browsers save it under name. Link makes no request.
func (b *Bucket) Link(ctx context.Context, key string, valid time.Duration, mediaType, name string) (string, error) {
	params := url.Values{"response-content-type": {mediaType}, "response-content-disposition": {mime.FormatMediaType("attachment", map[string]string{"filename": name})}}
	u, err := b.client.PresignedGetObject(ctx, b.name, key, valid, params)
	if err != nil {
		return "", translate(err)
	}
	return u.String(), nil
}

// AbortUploads removes the parts of unfinished uploads that began before a time, and leaves later
// uploads of the same keys alone. Storages that do this themselves list none.
func (b *Bucket) AbortUploads(ctx context.Context, prefix string, before time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	core := minio.Core{Client: b.client}
	for up := range b.client.ListIncompleteUploads(ctx, b.name, prefix, true) {
		if err := translate(up.Err); errors.Is(err, ErrNotFound) {
			return nil // how some storages report that there are none
		} else if err != nil {
			return err
		}
		if up.Initiated.Before(before) {
			err := translate(core.AbortMultipartUpload(ctx, b.name, up.Key, up.UploadID))
			if err != nil && !errors.Is(err, ErrNotFound) { // another process may abort it, too
				return err
			}
		}
	}
	return nil
}

// Stat returns an object's metadata.
func (b *Bucket) Stat(ctx context.Context, key string) (Info, error) {
	info, err := b.client.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, translate(err)
	}
	return infoOf(info), nil
}

// Upload streams content to key, replacing an existing object. Large content is uploaded in parts;
// a failed upload leaves none behind.
func (b *Bucket) Upload(ctx context.Context, key string, content io.Reader, size int64, mediaType string) (Info, error) {
	up, err := b.client.PutObject(ctx, b.name, key, content, size, minio.PutObjectOptions{ContentType: mediaType})
	if err != nil {
		return Info{}, translate(err)
	}
	return Info{Key: key, Size: up.Size, ETag: up.ETag}, nil
}

// Swap writes a small object if the current one still has this ETag or, with an empty ETag, if there
// is none; otherwise it returns ErrConflict. A retry after a lost response succeeds if the object
// already has this content, so data must differ from what another writer would write.
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
	if err = translate(err); !errors.Is(err, ErrConflict) && !(errors.Is(err, ErrNotFound) && etag != "") {
		return Info{}, err
	}
	if now, info, readErr := b.Read(ctx, key); readErr == nil && bytes.Equal(now, data) {
		return info, nil
	}
	return Info{}, ErrConflict
}

// Copy copies an object within the bucket; the storage copies the content itself.
func (b *Bucket) Copy(ctx context.Context, from, to string) error {
	_, err := b.client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: b.name, Object: to},
		minio.CopySrcOptions{Bucket: b.name, Object: from})
	return translate(err)
}

// Remove deletes an object. It is no error if there is none.
func (b *Bucket) Remove(ctx context.Context, key string) error {
	err := translate(b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
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
			if !yield(infoOf(object), translate(object.Err)) || object.Err != nil {
				return
			}
		}
	}
}

func infoOf(o minio.ObjectInfo) Info {
	return Info{Key: o.Key, Size: o.Size, ETag: o.ETag, Modified: o.LastModified}
}
