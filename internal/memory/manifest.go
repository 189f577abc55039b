package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Manifest describes the last push. A manifest of another tool has no Version: the content
// is then in claude-mem.db.
type Manifest struct {
	Project      string    `json:"project"`
	CanonicalID  string    `json:"canonical_id"`
	Timestamp    time.Time `json:"timestamp"`
	SourceHost   string    `json:"source_host"`
	Size         int64     `json:"db_size"` // bytes
	SHA256       string    `json:"sha256"`
	Observations int64     `json:"observations"`
	Summaries    int64     `json:"session_summaries"`
	Prompts      int64     `json:"user_prompts"`
	Tables       int64     `json:"tables"`
	Version      string    `json:"version,omitempty"` // key of the content, below sqlite/
	// Previous is the previous version, which is kept for nodes that are pulling it.
	Previous string `json:"previous,omitempty"`
	// PlainETag is the ETag of claude-mem.db after the push.
	PlainETag string `json:"plain_etag,omitempty"`
	// Epoch is the epoch of the lease under which it was pushed.
	Epoch int64 `json:"epoch,omitempty"`
}

// remote reads the manifest. It returns nil if nothing was pushed yet.
func (p *Project) remote(ctx context.Context) (*Manifest, string, error) {
	var m Manifest
	etag, err := p.readJSON(ctx, p.key("sqlite", "manifest.json"), &m)
	if errors.Is(err, objects.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, etag, fmt.Errorf("read the manifest: %w", err)
	}
	if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != sha256.Size {
		return nil, etag, fmt.Errorf("the manifest has no valid SHA-256: %w", errUnreadable)
	}
	return &m, etag, nil
}

// source returns the key of the content that m describes.
func (p *Project) source(m *Manifest) string {
	if m.Version != "" && path.Clean(m.Version) == m.Version && !path.IsAbs(m.Version) && m.Version[0] != '.' {
		return p.key("sqlite", m.Version)
	}
	return p.key("sqlite", "claude-mem.db")
}

// errUnreadable means that an object exists but is invalid. It may be replaced.
var errUnreadable = errors.New("it is not in the expected format")

// readJSON reads and decodes an object. It returns the ETag with errUnreadable, too.
func (p *Project) readJSON(ctx context.Context, key string, into any) (etag string, err error) {
	info, err := p.Bucket.Stat(ctx, key)
	if err != nil {
		return "", err
	}
	if info.Size > objects.MaxSmall {
		return info.ETag, fmt.Errorf("%s has %d bytes: %w", key, info.Size, errUnreadable)
	}
	data, info, err := p.Bucket.Read(ctx, key)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return info.ETag, fmt.Errorf("%s is not valid JSON (%w): %w", key, err, errUnreadable)
	}
	if t, ok := into.(interface{ sanitize() }); ok {
		t.sanitize()
	}
	return info.ETag, nil
}

// maxName is the maximum length of a name from the bucket, in bytes.
const maxName = 256

// printable removes characters that are not printable. Whoever can write to the bucket
// could otherwise send control sequences to a terminal.
func printable(text *string) {
	*text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8((*text)[:min(len(*text), maxName)], ""))
}

func (m *Manifest) sanitize() {
	printable(&m.Project)
	printable(&m.SourceHost)
	m.SHA256 = strings.ToLower(m.SHA256)
}

func (l *Lock) sanitize() { printable(&l.Holder) }

func (l *Lease) sanitize() { printable(&l.PrimaryNode); printable(&l.IssuedBy) }

func (p *Project) swapJSON(ctx context.Context, key string, value any, etag string) (string, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", err
	}
	info, err := p.Bucket.Swap(ctx, key, data, etag)
	return info.ETag, err
}
