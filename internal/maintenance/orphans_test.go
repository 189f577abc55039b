package maintenance_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// age makes everything in the folder old.
func age(t *testing.T, dir string) (files int) {
	t.Helper()
	old := time.Now().Add(-maintenance.OrphanAge - time.Hour)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
			err = os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOrphansGoAndWhatAnArtifactNamesStays(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	blobs, dir := openBlobs(t)
	var tasks []string
	for range 10 {
		tasks = append(tasks, ended(t, s, blobs))
	}
	for i, task := range tasks {
		name := "artifacts/" + task + "/forgotten"
		if i%2 == 0 {
			name = "artifacts/" + uuid.NewString() + "/forgotten"
		}
		put(t, blobs, name)
	}
	if err := os.WriteFile(filepath.Join(dir, blob.Day(time.Now()), "artifacts", ".put-half"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	age(t, dir)
	fresh := put(t, blobs, "artifacts/"+tasks[0]+"/fresh") // uploaded, and soon named by an artifact
	loop := maintenance.NewOrphans(maintenance.OrphansConfig{Store: s, Uploads: []maintenance.Uploads{blobs}, Since: c.Now(), Clock: c})
	c.advance(sweptAfter)
	// Completions continue during the sweep, which never removes their files.
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := loop.RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { tasks = append(tasks, ended(t, s, blobs)) })
		wg.Wait()
	}
	if _, err := loop.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := age(t, dir); left != len(tasks)+1 {
		t.Errorf("%d files for %d artifacts and one upload in progress", left, len(tasks))
	}
	list, _, err := s.Artifacts(t.Context(), bloom.ArtifactQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range append(urls(list), fresh) {
		content, err := blobs.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		_, _ = io.Copy(io.Discard, content)
		content.Close()
	}
}

func urls(list []bloom.Artifact) (all []string) {
	for _, a := range list {
		if a.URL != nil {
			all = append(all, *a.URL)
		}
	}
	return all
}

func put(t *testing.T, b blob.Blobs, key string) string {
	t.Helper()
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	url, err := b.Put(t.Context(), key, strings.NewReader(""), 0, empty)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// later shows everything as so much older.
type later struct {
	maintenance.Uploads
	by time.Duration
}

func (l later) List(ctx context.Context, day string, fn func(url, key string, age time.Duration) error) error {
	return l.Uploads.List(ctx, day, func(url, key string, age time.Duration) error { return fn(url, key, age+l.by) })
}

// sweptAfter is when everything that is uploaded now is swept.
const sweptAfter = maintenance.OrphanAge + 24*time.Hour

// sweepAt sweeps a place as if so much time had passed.
func sweepAt(t *testing.T, s contract.Store, place maintenance.Uploads, passed time.Duration, ours func(context.Context) (bool, error)) {
	t.Helper()
	c := newClock()
	c.advance(passed)
	if _, err := maintenance.NewOrphans(maintenance.OrphansConfig{Store: s, Uploads: []maintenance.Uploads{later{place, passed}}, Since: time.Now(), Ours: ours, Clock: c}).RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantThere(t *testing.T, b blob.Blobs, there bool, urls ...string) {
	t.Helper()
	for _, url := range urls {
		content, err := b.Open(t.Context(), url)
		if err == nil {
			content.Close()
		}
		if (err == nil) != there || err != nil && bloom.KindOf(err) != bloom.KindNotFound {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// openBucket creates a bucket with the default name.
func openBucket(t *testing.T) *objects.Bucket {
	t.Helper()
	c := miniotest.Start(t).Bucket()
	c.Bucket = "bloom-artifacts"
	bucket, err := objects.Open(c)
	if err == nil {
		err = bucket.Probe(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bucket.Close)
	return bucket
}

func TestOrphansInABucketGoAndWhatOthersStoreThereStays(t *testing.T) {
	t.Parallel()
	bucket := openBucket(t)
	s, blobs := open(t, newClock()), s3.New(bucket, blob.InstallationArea(uuid.NewString()))
	other, others := open(t, newClock()), s3.New(bucket, blob.InstallationArea(uuid.NewString()))
	task := ended(t, s, blobs)
	orphans := []string{put(t, blobs, "artifacts/"+task+"/forgotten"), put(t, blobs, "artifacts/"+uuid.NewString()+"/forgotten")}
	kept := []string{put(t, blobs, "reports/of/others")}
	for _, key := range []string{ // of the earlier system, of a server before there were areas, of bloom memory, of the audit's export
		"artifacts/" + uuid.NewString() + "/result.json", "artifacts/" + uuid.NewString() + "/x-20260101", "projects/0123456789abcdef/locks/active.lock", "audit/2026/01/01/x",
	} {
		if _, err := bucket.Upload(t.Context(), key, strings.NewReader(""), 0, "text/plain"); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, "minio://bloom-artifacts/"+key)
	}
	list, _, err := s.Artifacts(t.Context(), bloom.ArtifactQuery{})
	if err != nil || len(urls(list)) == 0 {
		t.Fatal(list, err)
	}
	kept = append(kept, urls(list)...)
	for _, passed := range []time.Duration{0, 24 * time.Hour, maintenance.OrphanAge - time.Hour} {
		sweepAt(t, s, blobs, passed, nil)
		wantThere(t, blobs, true, append(kept, orphans...)...)
	}
	for _, passed := range []time.Duration{sweptAfter, 1000 * time.Hour} {
		sweepAt(t, other, others, passed, nil) // its database knows none of this
		wantThere(t, blobs, true, append(kept, orphans...)...)
	}
	sweepAt(t, s, blobs, sweptAfter, nil)
	wantThere(t, blobs, false, orphans...)
	wantThere(t, blobs, true, kept...)
}

// A server with a copy of the database, or with an older backup of it, has the same id and does not
// know what was uploaded since.
func TestOnlyOneOfTwoCopiesOfADatabaseSweeps(t *testing.T) {
	t.Parallel()
	bucket := openBucket(t)
	blobs := s3.New(bucket, blob.InstallationArea(uuid.NewString()))
	first, copied := open(t, newClock()), open(t, newClock())
	var log strings.Builder
	mark := func(s contract.Store, b interface {
		Mark(ctx context.Context) (mark, version string, err error)
		SetMark(ctx context.Context, mark, version string) error
		MarkURL() string
	}) *maintenance.SweepMark {
		return &maintenance.SweepMark{Store: s, Bucket: b, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	}
	ofFirst, ofCopy := mark(first, blobs), mark(copied, blobs)
	sweeps := func(m *maintenance.SweepMark, want bool) {
		t.Helper()
		if ours, err := m.Ours(t.Context()); err != nil || ours != want {
			t.Fatalf("may sweep: %v, %v; want %v", ours, err, want)
		}
	}
	sweeps(ofFirst, true)
	sweeps(ofFirst, true)
	settings, err := first.Settings(t.Context())
	if err == nil {
		err = copied.PutSettings(t.Context(), settings, bloom.Audit{})
	}
	if err != nil {
		t.Fatal(err)
	}
	sweeps(ofFirst, true)
	ended(t, first, blobs)
	list, _, err := first.Artifacts(t.Context(), bloom.ArtifactQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sweepAt(t, copied, blobs, sweptAfter, ofCopy.Ours)
	}
	wantThere(t, blobs, true, urls(list)...)
	if n := strings.Count(log.String(), blobs.MarkURL()); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	// A crash between the database and the bucket leaves the previous mark.
	if _, err := mark(first, unmarked{blobs}).Ours(t.Context()); err == nil {
		t.Fatal("marked")
	}
	sweeps(ofFirst, true)
	// The operator decides for the copy.
	if err := bucket.Remove(t.Context(), strings.TrimPrefix(blobs.MarkURL(), "minio://bloom-artifacts/")); err != nil {
		t.Fatal(err)
	}
	sweeps(ofCopy, true)
	sweeps(ofFirst, false)
	if entries, _, err := first.Audit(t.Context(), bloom.AuditQuery{Action: ""}); err != nil || slices.ContainsFunc(entries, func(a bloom.Audit) bool { return a.Action == "" }) {
		t.Errorf("the audit has the marks: %+v, %v", entries, err)
	}
}

// unmarked is a bucket that cannot be written.
type unmarked struct{ *s3.Store }

func (unmarked) SetMark(context.Context, string, string) error { return errors.New("unavailable") }

// days records which days are listed.
type days struct {
	maintenance.Uploads
	listed map[string]int
}

func (d *days) List(_ context.Context, day string, _ func(url, key string, age time.Duration) error) error {
	d.listed[day]++
	return nil
}

func TestTheSweepDoesNotReadEverything(t *testing.T) {
	t.Parallel()
	c, since := newClock(), time.Now()
	c.advance(20*24*time.Hour + sweptAfter)
	place := &days{listed: map[string]int{}}
	loop := maintenance.NewOrphans(maintenance.OrphansConfig{Store: open(t, c), Uploads: []maintenance.Uploads{place}, Since: since, Clock: c})
	latest := blob.Day(c.Now().Add(-sweptAfter))
	for runs := 1; len(place.listed) < 21; runs++ { // every day since then, sooner or later
		runOnce(t, loop)
		total := 0
		for day, n := range place.listed {
			if total += n; day > latest || day < blob.Day(since.Add(-24*time.Hour)) {
				t.Fatalf("swept %s", day)
			}
		}
		if total != 3*runs || place.listed[latest] != runs || runs > 10_000 {
			t.Fatalf("%d days in %d runs: %v", total, runs, place.listed)
		}
	}
}
