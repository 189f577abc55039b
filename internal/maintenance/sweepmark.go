package maintenance

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// SweepMark decides whether a server may delete content from an installation's area of a bucket.
// Another server may have the installation's id, too: one with a copy of its database, for a trial,
// or one whose database was restored from a backup. Such a database does not know all content that
// the other one uses. So each sweep replaces a mark in the bucket, and the database knows the last
// marks it has written: if it is not one of them, another database has been swept for.
type SweepMark struct {
	Store interface {
		Settings(ctx context.Context) (map[string]string, error)
		ReplaceSettings(ctx context.Context, was, settings map[string]string, a bloom.Audit) error
	}
	Bucket interface {
		Mark(ctx context.Context) (mark, version string, err error)
		SetMark(ctx context.Context, mark, version string) error
		MarkURL() string
	}
	Logger *slog.Logger

	warn sync.Once
}

// Ours reports whether this database's content may be swept for, and replaces the mark.
func (m *SweepMark) Ours(ctx context.Context) (bool, error) {
	name := "sweep:" + m.Bucket.MarkURL()
	settings, err := m.Store.Settings(ctx)
	if err != nil {
		return false, err
	}
	mark, version, err := m.Bucket.Mark(ctx)
	if err != nil {
		return false, err
	}
	// The second one was perhaps not written to the bucket.
	if mark != "" && !slices.Contains(strings.Fields(settings[name]), mark) {
		m.warn.Do(func() {
			m.Logger.WarnContext(ctx, "not deleting unused content from the bucket: another server with a copy of this database uses it, or the database was restored from a backup. "+
				"If no other server uses the bucket, delete the mark; otherwise give one of them another bucket", "mark", m.Bucket.MarkURL())
		})
		return false, nil
	}
	next := rand.Text()
	if err := m.Store.ReplaceSettings(ctx, map[string]string{name: settings[name]}, map[string]string{name: strings.TrimSpace(mark + " " + next)}, bloom.Audit{}); err != nil {
		return false, err
	}
	return true, m.Bucket.SetMark(ctx, next, version)
}
