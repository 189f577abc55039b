package maintenance_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
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
	s := open(t, newClock())
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
	if err := os.WriteFile(filepath.Join(dir, "artifacts", ".put-half"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	age(t, dir)
	fresh := put(t, blobs, "artifacts/"+tasks[0]+"/fresh") // uploaded, and soon named by an artifact
	loop := maintenance.NewOrphans(maintenance.OrphansConfig{Store: s, Blobs: blobs})
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

func put(t *testing.T, b bloom.Blobs, key string) string {
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
	bloom.Blobs
	by time.Duration
}

func (l later) List(ctx context.Context, prefix string, fn func(url string, age time.Duration) error) error {
	return l.Blobs.List(ctx, prefix, func(url string, age time.Duration) error { return fn(url, age+l.by) })
}

func TestOrphansInABucketGoAfterADay(t *testing.T) {
	t.Parallel()
	bucket, err := objects.Open(miniotest.Start(t).Bucket())
	if err != nil {
		t.Fatal(err)
	}
	defer bucket.Close()
	if err := bucket.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, blobs := open(t, newClock()), s3.New(bucket)
	task := ended(t, s, blobs)
	orphans := []string{put(t, blobs, "artifacts/"+task+"/forgotten"), put(t, blobs, "artifacts/"+uuid.NewString()+"/forgotten")}
	foreign := put(t, blobs, "reports/of/others")
	for _, c := range []struct {
		passed time.Duration
		gone   bool
	}{{0, false}, {24 * time.Hour, false}, {maintenance.OrphanAge - time.Hour, false}, {maintenance.OrphanAge + time.Hour, true}, {1000 * time.Hour, true}} {
		if _, err := maintenance.NewOrphans(maintenance.OrphansConfig{Store: s, Blobs: later{blobs, c.passed}}).RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, _, err := s.Artifacts(t.Context(), bloom.ArtifactQuery{})
		if err != nil || len(urls(list)) == 0 {
			t.Fatal(list, err)
		}
		for _, url := range append(urls(list), foreign) {
			content, err := blobs.Open(t.Context(), url)
			if err != nil {
				t.Fatalf("after %s %s is gone: %v", c.passed, url, err)
			}
			content.Close()
		}
		for _, url := range orphans {
			content, err := blobs.Open(t.Context(), url)
			if (err != nil) != c.gone {
				t.Errorf("after %s %s: %v", c.passed, url, err)
			}
			if err == nil {
				content.Close()
			}
		}
	}
}
