package maintenance_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

const month = 30 * 24 * time.Hour

func openBlobs(t *testing.T) (*local.Store, string) {
	t.Helper()
	dir := t.TempDir()
	b, err := local.Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, dir
}

// ended creates an ended task with its content in the blob store.
func ended(t *testing.T, s contract.Store, b blob.Blobs) string {
	t.Helper()
	l := leased(t, s)
	const content = "a long text"
	sum := sha256.Sum256([]byte(content))
	id := uuid.Must(uuid.NewV7()).String()
	url, err := b.Put(t.Context(), "artifacts/"+l.TaskID+"/"+id, strings.NewReader(content), int64(len(content)), hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Complete(t.Context(), contract.CompleteRequest{
		TaskID: l.TaskID, ArtifactID: id, ResultID: uuid.Must(uuid.NewV7()).String(), BodyHash: id, URL: &url, Size: int64(len(content)),
		SHA256: hex.EncodeToString(sum[:]), MediaType: "text/plain", Actor: "w",
		Completion: bloom.Completion{LeaseID: l.ID, Status: bloom.OutcomeSuccess, ArtifactType: bloom.DefaultArtifactType},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.TaskID
}

// files counts the files in a folder.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantTask(t *testing.T, s contract.Store, id string, there bool) {
	t.Helper()
	if _, err := s.Task(t.Context(), id); errors.Is(err, bloom.ErrTaskNotFound) == there {
		t.Errorf("task %s: %v, want it there: %v", id, err, there)
	}
}

func TestOldDataIsRemovedWithItsContentAndAuditedOnce(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	b, dir := openBlobs(t)
	var log bytes.Buffer
	var observed contract.Removed
	loop := maintenance.NewRetention(maintenance.RetentionConfig{
		Store: s, Contents: b, Clock: c, Logger: slog.New(slog.NewTextHandler(&log, nil)), Keep: contract.Keep{Tasks: month}, Removed: func(r contract.Removed) { observed.Add(r) },
	})
	old := ended(t, s, b)
	waiting := leased(t, s).TaskID
	c.advance(month - time.Minute)
	young := ended(t, s, b)
	if res := runOnce(t, loop); res.Changed != 0 || log.Len() > 0 {
		t.Fatalf("too young, and yet %+v:\n%s", res, log.String())
	}
	c.advance(2 * time.Minute)
	if res := runOnce(t, loop); res.Changed == 0 || observed.Tasks != 1 || observed.Contents != 1 || int(observed.Total()) != res.Changed {
		t.Fatalf("%+v, observed %+v", res, observed)
	}
	wantTask(t, s, old, false)
	wantTask(t, s, waiting, true)
	wantTask(t, s, young, true)
	if n := files(t, dir); n != 1 {
		t.Errorf("%d contents are left, want 1", n)
	}
	runOnce(t, loop)
	if details := log.String(); strings.Count(details, "level=INFO") != 1 || !strings.Contains(details, "1 tasks, 1 leases, 1 results, 1 artifacts, 3 events") {
		t.Errorf("it is reported as\n%s", details)
	}
	if err := storetest.CheckInvariants(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestKeptForEverUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*maintenance.RetentionConfig){
		"nothing": func(*maintenance.RetentionConfig) {},
		"tasks":   func(c *maintenance.RetentionConfig) { c.Keep.Tasks = month },
		"events":  func(c *maintenance.RetentionConfig) { c.Keep.Events = month },
		"audit":   func(c *maintenance.RetentionConfig) { c.Keep.Audit = month },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s := open(t, c)
			b, _ := openBlobs(t)
			id := ended(t, s, b)
			leased(t, s) // the newest audit entry is never removed
			c.advance(100 * month)
			cfg := maintenance.RetentionConfig{Store: s, Contents: b, Clock: c}
			change(&cfg)
			runOnce(t, maintenance.NewRetention(cfg))
			wantTask(t, s, id, name != "tasks")
			entries, _, err := s.Audit(t.Context(), bloom.AuditQuery{EntityID: id})
			if err != nil || (len(entries) == 0) != (name == "audit") {
				t.Errorf("%d entries of its audit, %v", len(entries), err)
			}
			if name == "tasks" {
				return
			}
			events, err := s.Events(t.Context(), id, 0, 10)
			if err != nil || (len(events) == 0) != (name == "events") {
				t.Errorf("%d events, %v", len(events), err)
			}
		})
	}
}

func TestContentThatAKilledRunLeftIsDeletedByTheNext(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	b, dir := openBlobs(t)
	ended(t, s, b)
	c.advance(2 * month)
	// As far as a run gets that is killed after its commit.
	if did, err := s.RemoveTasks(t.Context(), contract.RemoveRequest{OlderThan: month}); err != nil || did.Tasks != 1 {
		t.Fatalf("%+v, %v", did, err)
	}
	if n := files(t, dir); n != 1 {
		t.Fatalf("%d contents", n)
	}
	// Also after retention was switched off.
	loop := maintenance.NewRetention(maintenance.RetentionConfig{Store: s, Contents: b, Clock: c})
	runOnce(t, loop)
	if n := files(t, dir); n != 0 {
		t.Errorf("%d contents are left", n)
	}
	if list, err := s.RemovedContent(t.Context(), 0, 10); err != nil || len(list) != 0 {
		t.Errorf("%v is still to be deleted: %v", list, err)
	}
}

// shaky is a blob store that refuses to delete while it is down.
type shaky struct {
	blob.Blobs
	down  func(url string) bool
	asked int
}

func (s *shaky) Delete(ctx context.Context, url string) error {
	if s.asked++; s.down(url) {
		return errors.New("not today")
	}
	return s.Blobs.Delete(ctx, url)
}

func TestContentThatCannotBeDeletedBlocksNoOther(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	b, dir := openBlobs(t)
	for range 8 {
		ended(t, s, b)
	}
	first := ""
	sh := &shaky{Blobs: b, down: func(url string) bool {
		if first == "" {
			first = url
		}
		return url == first
	}}
	c.advance(2 * month)
	var log bytes.Buffer
	loop := maintenance.NewRetention(maintenance.RetentionConfig{Store: s, Contents: sh, Clock: c, Keep: contract.Keep{Tasks: month}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if res := runOnce(t, loop); res.Changed == 0 || files(t, dir) != 1 || strings.Count(log.String(), "level=WARN") != 1 {
		t.Fatalf("%+v, %d contents left:\n%s", res, files(t, dir), log.String())
	}
	sh.down = func(string) bool { return false }
	runOnce(t, loop)
	if n := files(t, dir); n != 0 {
		t.Errorf("%d contents are left", n)
	}
}

func TestAnUnavailableBlobStoreIsNotAskedForEveryObject(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	b, dir := openBlobs(t)
	for range 12 {
		ended(t, s, b)
	}
	sh := &shaky{Blobs: b, down: func(string) bool { return true }}
	c.advance(2 * month)
	runOnce(t, maintenance.NewRetention(maintenance.RetentionConfig{Store: s, Contents: sh, Clock: c, Keep: contract.Keep{Tasks: month}}))
	if list, err := s.RemovedContent(t.Context(), 0, 100); err != nil || len(list) != 12 || sh.asked != 5 || files(t, dir) != 12 {
		t.Errorf("asked %d times, %d listed, %d contents: %v", sh.asked, len(list), files(t, dir), err)
	}
}
