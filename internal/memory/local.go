package memory

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// local is this node's database.
type local struct {
	Snapshot

	exists bool
	damage error  // why no snapshot could be taken
	watch  *watch // on the connection that took the snapshot; may be nil
}

// remove deletes the snapshot, if one was taken.
func (l *local) remove() {
	l.stopWatching()
	if l.Path != "" {
		l.Snapshot.remove()
	}
}

func (l *local) stopWatching() {
	if l.watch != nil {
		l.watch.close()
		l.watch = nil
	}
}

// changed reports whether the database was written since the snapshot.
func (l *local) changed(ctx context.Context) (bool, error) {
	now, err := l.watch.dataVersion(ctx)
	return now != l.watch.version, err
}

// retake takes a new snapshot, none of a database that was empty and still is.
func (l *local) retake(ctx context.Context, db querier, p *Project) error {
	if !l.exists {
		var entries int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&entries); err != nil || entries == 0 {
			return err
		}
		l.exists = true
	}
	s, err := p.snapshotOn(ctx, db)
	if err != nil {
		return err
	}
	if l.Path != "" {
		l.Snapshot.remove()
	}
	l.Snapshot = *s
	return nil
}

func (p *Project) readLocal(ctx context.Context) (*local, error) {
	info, err := os.Stat(p.DB)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return &local{}, nil
	}
	if err != nil {
		return nil, err
	}
	found := &local{exists: true}
	var s *Snapshot
	if err = rollBack(ctx, p.DB); err == nil {
		found.watch, err = newWatch(ctx, p.DB)
	}
	if err == nil {
		s, err = p.snapshotOn(ctx, found.watch.conn)
	}
	switch {
	case err == nil:
		found.Snapshot = *s
		return found, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case damage(err):
		found.stopWatching()
		found.damage = err
		return found, nil
	}
	found.stopWatching()
	return nil, err
}
