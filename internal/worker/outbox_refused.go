package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// refused reports whether the server refused a request for good. A refused key does not
// count: it may be being rotated.
func refused(err error) bool {
	switch bloom.KindOf(err) { //nolint:exhaustive // every other kind may be temporary
	case bloom.KindInvalid, bloom.KindNotFound, bloom.KindConflict, bloom.KindTooLarge:
		return !client.Temporary(err)
	}
	return false
}

// setAside moves a refused outcome to refused/, with the server's reason. The worker
// replaces a malformed completion by a substitute, because the task would otherwise run
// again, to the same end.
func (o *outbox) setAside(d *delivery, reason error) {
	aside := *d
	aside.Refused, aside.malformed = reason.Error(), malformed(reason)
	place := filepath.Join(o.dir, "refused", fmt.Sprintf("%s-%d.json", filepath.Base(d.LeaseID), d.At))
	moved, wrote := o.moveAside(&aside, place)
	log := d.logger(o.log).With("reason", reason)
	switch {
	case moved == nil && wrote == nil:
		log.Error("the server refused an outcome; it is moved aside", "file", place)
	case moved == nil:
		log.Error("the server refused an outcome; it is moved aside, but without the reason", "file", place, "error", wrote)
	case aside.memoryOnly || !exists(o.path(d.LeaseID)):
		log.Error("the server refused an outcome; it is lost, because it could not be written to disk", "error", wrote)
	default:
		aside.notMoved = true
		log.Error("the server refused an outcome; it could not be moved aside and stays in the outbox", "file", o.path(d.LeaseID), "error", moved)
	}
	o.pruneRefused()
	o.drop(d)
	o.settled(aside, false)
}

const (
	refusedMost = 1000                // files kept in refused/
	refusedFor  = 30 * 24 * time.Hour // how long one is kept
)

// pruneRefused deletes old refused outcomes, so that they do not fill the disk.
func (o *outbox) pruneRefused() {
	dir := filepath.Join(o.dir, "refused")
	files, err := os.ReadDir(dir)
	if err != nil {
		o.log.Warn("refused outcomes could not be listed", "dir", dir, "error", err)
		return
	}
	written := map[string]time.Time{}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			written[f.Name()] = info.ModTime()
		}
	}
	names := slices.SortedFunc(maps.Keys(written), func(a, b string) int { return written[b].Compare(written[a]) })
	for i, name := range names {
		if i < refusedMost && o.clock.Now().Sub(written[name]) < refusedFor {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err == nil {
			o.log.Info("an old refused outcome is deleted", "file", name)
		}
	}
}

// moveAside first moves an outcome's file, which needs no disk space, and then writes the
// reason into it. A file that cannot be moved is written again, and the old one is
// removed only when that succeeded.
func (o *outbox) moveAside(aside *delivery, place string) (moved, wrote error) {
	if moved = fs.ErrNotExist; !aside.memoryOnly {
		_ = os.MkdirAll(filepath.Dir(place), 0o700)
		moved = os.Rename(o.path(aside.LeaseID), place)
	}
	raw, wrote := json.MarshalIndent(aside, "", "  ")
	if wrote == nil {
		wrote = writeDurably(place, raw)
	}
	if moved != nil && wrote == nil {
		if !aside.memoryOnly {
			_ = os.Remove(o.path(aside.LeaseID))
		}
		moved = nil
	}
	return moved, wrote
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// malformed reports whether a refusal was about the completion's form.
func malformed(err error) bool {
	return errors.Is(err, bloom.Invalid("")) || bloom.KindOf(err) == bloom.KindTooLarge
}
