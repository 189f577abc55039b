package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
)

const (
	// ContentScheme begins every URL of Contents.
	ContentScheme = "database:"
	contentChunk  = 1 << 20 // bytes, of all chunks but the last
	// contentAbandoned is the age at which incomplete content is removed. No upload takes
	// so long.
	contentAbandoned = 30 * time.Hour
	// contentDeleted is the age that deleted content is given. It is removed an hour
	// later, so that running reads can finish.
	contentDeleted = contentAbandoned - time.Hour
	deleteContent  = `UPDATE contents SET whole = false, put_at = ` + contentNow + ` - $2 WHERE key = $1 AND whole`

	contentPage    = 1000
	contentCleanup = 10 * time.Second

	lockContent = 0x626c6d05 // class of the advisory locks for replacing content, by hash of the key
	contentNow  = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
)

// Contents implements blob.Blobs in the database, in chunks: for servers that share no
// folder, while the object storage is unreachable. It holds at most one chunk in memory
// per call. It is safe for concurrent use.
type Contents struct{ d *database }

var _ blob.Blobs = (*Contents)(nil)

// Contents returns the blob store in the database.
func (s *Store) Contents() *Contents { return &Contents{s.db} }

// Put stores content under key.
func (c *Contents) Put(ctx context.Context, key string, content io.Reader, size int64, sum string) (_ string, err error) {
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	var id int64
	if err := c.d.reads.QueryRow(ctx, `INSERT INTO contents (key, size, put_at) VALUES ($1, $2, `+contentNow+`) RETURNING id`, key, size).Scan(&id); err != nil {
		return "", c.d.fail(err)
	}
	defer func() {
		if err != nil { // if this fails, List removes the content once it is old
			ctx, done := context.WithTimeout(context.WithoutCancel(ctx), contentCleanup)
			defer done()
			_, _ = c.d.reads.Exec(ctx, `DELETE FROM contents WHERE id = $1`, id)
		}
	}()
	if err := c.fill(ctx, id, content, size, sum); err != nil {
		return "", err
	}
	err = pgx.BeginFunc(ctx, c.d.reads, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT pg_advisory_xact_lock($1, hashtext($2))`, lockContent, key)
		b.Queue(deleteContent, key, contentDeleted.Milliseconds())
		b.Queue(`UPDATE contents SET whole = true WHERE id = $1`, id)
		return tx.SendBatch(ctx, b).Close()
	})
	return ContentScheme + key, c.d.fail(err)
}

// fill writes the chunks.
func (c *Contents) fill(ctx context.Context, id int64, content io.Reader, size int64, sum string) error {
	hash, chunk, read := sha256.New(), make([]byte, min(contentChunk, size+1)), int64(0)
	// One byte more than announced shows that the content is too long.
	content = io.LimitReader(content, size+1)
	for n := 0; ; n++ {
		got, err := io.ReadFull(content, chunk)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		hash.Write(chunk[:got])
		if read += int64(got); read > size {
			break
		}
		if got > 0 {
			if _, err := c.d.reads.Exec(ctx, `INSERT INTO content_chunks (content_id, n, data) VALUES ($1, $2, $3)`, id, n, chunk[:got]); err != nil {
				return c.d.fail(err)
			}
		}
		if err != nil {
			break
		}
	}
	switch {
	case read != size:
		return fmt.Errorf("%w: its size is not %d bytes", blob.ErrMismatch, size)
	case !strings.EqualFold(hex.EncodeToString(hash.Sum(nil)), sum):
		return fmt.Errorf("%w: its digest differs", blob.ErrMismatch)
	}
	return nil
}

// Open streams the content at url.
func (c *Contents) Open(ctx context.Context, url string) (io.ReadCloser, error) {
	return c.OpenRange(ctx, url, 0, -1)
}

// OpenRange streams a part of the content at url.
func (c *Contents) OpenRange(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	id, size, err := c.find(ctx, url)
	if err != nil {
		return nil, err
	}
	if offset = max(0, min(offset, size)); length < 0 || length > size-offset {
		length = size - offset
	}
	return &contentReader{ctx: ctx, c: c, id: id, at: offset, left: length}, nil
}

// contentReader reads one chunk at a time.
type contentReader struct {
	ctx      context.Context //nolint:containedctx // of the call that opened it, as for any response body
	c        *Contents
	id       int64
	at, left int64
	chunk    []byte // not read by the caller yet
}

func (r *contentReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if len(r.chunk) == 0 {
		var chunk []byte
		err := r.c.d.reads.QueryRow(r.ctx, `SELECT data FROM content_chunks WHERE content_id = $1 AND n = $2`, r.id, r.at/contentChunk).Scan(&chunk)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, bloom.NotFound("Artifact content") // it was moved in the meantime
		}
		if err != nil {
			return 0, r.c.d.fail(err)
		}
		skip := r.at % contentChunk
		r.chunk = chunk[min(skip, int64(len(chunk))):]
		if len(r.chunk) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.chunk)
	r.chunk, r.at, r.left = r.chunk[n:], r.at+int64(n), r.left-int64(n)
	return n, nil
}

func (r *contentReader) Close() error { return nil }

// find returns the content at a URL, or NotFound.
func (c *Contents) find(ctx context.Context, url string) (id, size int64, err error) {
	key := contentKey(url)
	if key == "" {
		return 0, 0, bloom.NotFound("Artifact content")
	}
	err = c.d.reads.QueryRow(ctx, `SELECT id, size FROM contents WHERE key = $1 AND whole`, key).Scan(&id, &size)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, bloom.NotFound("Artifact content")
	}
	return id, size, c.d.fail(err)
}

func contentKey(url string) string {
	key, ours := strings.CutPrefix(url, ContentScheme)
	if !ours || blob.CheckKey(key) != nil {
		return ""
	}
	return key
}

// Stat returns the key and the size of the content at url.
func (c *Contents) Stat(ctx context.Context, url string) (string, int64, error) {
	_, size, err := c.find(ctx, url)
	return contentKey(url), size, err
}

// Delete removes the content at url.
func (c *Contents) Delete(ctx context.Context, url string) error {
	key := contentKey(url)
	if key == "" {
		return fmt.Errorf("the database has no content at %q", url)
	}
	_, err := c.d.reads.Exec(ctx, deleteContent, key, contentDeleted.Milliseconds())
	return c.d.fail(err)
}

// List lists all content. It also removes incomplete content, from servers that
// crashed, once that is older than a day. Ages are by the database's clock.
func (c *Contents) List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error {
	if _, err := c.d.reads.Exec(ctx, `DELETE FROM contents WHERE NOT whole AND put_at < `+contentNow+` - $1`, contentAbandoned.Milliseconds()); err != nil {
		return c.d.fail(err)
	}
	type entry struct {
		id, age int64
		key     string
	}
	for after := int64(0); ; {
		rows, err := c.d.reads.Query(ctx, `SELECT id, key, `+contentNow+` - put_at FROM contents WHERE id > $1 AND whole
			AND ($2 = '' OR to_char(to_timestamp(put_at / 1000) AT TIME ZONE 'UTC', 'YYYYMMDD') = $2) ORDER BY id LIMIT $3`, after, day, contentPage)
		if err != nil {
			return c.d.fail(err)
		}
		page, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e entry, err error) {
			err = r.Scan(&e.id, &e.key, &e.age)
			return e, err
		})
		if err != nil {
			return c.d.fail(err)
		}
		for _, e := range page {
			if err := fn(ContentScheme+e.key, e.key, time.Duration(e.age)*time.Millisecond); err != nil {
				return err
			}
			after = e.id
		}
		if len(page) < contentPage {
			return nil
		}
	}
}
