package maintenance_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// part uploads content as a worker does.
func part(t *testing.T, b blob.Blobs, context, lease, content string) bloom.TranscriptPart {
	t.Helper()
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	frame := zip.EncodeAll([]byte(content), nil)
	url, err := b.Put(t.Context(), "transcripts/"+contract.TranscriptFolder(context)+"/"+lease+"-"+sumOf(frame), bytes.NewReader(frame), int64(len(frame)), sumOf(frame))
	if err != nil {
		t.Fatal(err)
	}
	return bloom.TranscriptPart{URL: url, Size: int64(len(frame))}
}

// spoken creates a context with a transcript in two parts and a working folder in one.
func spoken(t *testing.T, s contract.Store, b blob.Blobs) contract.Transcript {
	t.Helper()
	l := leased(t, s)
	out, id := "done", uuid.Must(uuid.NewV7()).String()
	c := bloom.Completion{
		LeaseID: l.ID, Status: bloom.OutcomeSuccess, Output: &out, ArtifactType: bloom.DefaultArtifactType,
		Transcript: &bloom.TranscriptUpdate{SessionID: "11111111-1111-4111-8111-111111111111", Size: 11, SHA256: sumOf([]byte("hello world")), Parts: []bloom.TranscriptPart{part(t, b, "c", l.ID, "hello "), part(t, b, "c", l.ID, "world")}},
		Workspace:  &bloom.WorkspaceUpdate{Size: 6, SHA256: sumOf([]byte("folder")), Parts: []bloom.TranscriptPart{part(t, b, "c", l.ID, "folder")}},
	}
	if _, err := s.Complete(t.Context(), contract.CompleteRequest{TaskID: l.TaskID, ArtifactID: id, ResultID: uuid.Must(uuid.NewV7()).String(), BodyHash: id, Content: &out, Size: 4,
		SHA256: sumOf([]byte(out)), MediaType: "text/plain", Actor: "w", Completion: c, ContextID: "c"}); err != nil {
		t.Fatal(err)
	}
	kept, err := s.Transcript(t.Context(), "c")
	if err != nil || kept == nil {
		t.Fatal(kept, err)
	}
	return *kept
}

func TestWhatContextsKeepIsVerified(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(path string) error
		kind string
	}{
		"nothing":        {func(string) error { return nil }, ""},
		"gone":           {os.Remove, maintenance.ContentMissing},
		"cut":            {func(path string) error { return os.Truncate(path, 3) }, maintenance.ContentDiffers},
		"empty":          {func(path string) error { return os.Truncate(path, 0) }, maintenance.ContentDiffers},
		"something else": {func(path string) error { return os.WriteFile(path, []byte("not compressed at all"), 0o600) }, maintenance.ContentDiffers},
		"another byte": {func(path string) error {
			raw, err := os.ReadFile(path)
			if err == nil {
				raw[len(raw)-1] ^= 1
				err = os.WriteFile(path, raw, 0o600)
			}
			return err
		}, maintenance.ContentDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := range 3 { // the first part, the second, and the working folder
				s := open(t, newClock())
				blobs, dir := openBlobs(t)
				kept := spoken(t, s, blobs)
				url := kept.URLs()[at]
				if err := c.harm(filepath.Join(dir, strings.TrimPrefix(url, "file:"))); err != nil {
					t.Fatal(err)
				}
				var defects []bloom.ContentDefect
				mover := maintenance.NewMover(maintenance.MoverConfig{Store: s, Blobs: blobs})
				did, err := mover.Verify(t.Context(), func(_ bloom.VerifyReport, d *bloom.ContentDefect) {
					if d != nil {
						defects = append(defects, *d)
					}
				})
				if err != nil || did.Contexts != 1 {
					t.Fatalf("%+v, %v", did, err)
				}
				switch {
				case c.kind == "" && len(defects) > 0:
					t.Errorf("found %+v", defects)
				case c.kind != "" && (len(defects) != 1 || defects[0].Kind != c.kind || defects[0].ContextID != "c" || defects[0].URL != url):
					t.Errorf("part %d: found %+v, want it %s", at, defects, c.kind)
				}
			}
		})
	}
}

func TestTheSweepNeverTakesWhatAContextNames(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := open(t, c)
	blobs, dir := openBlobs(t)
	kept := spoken(t, s, blobs)
	orphans := []string{part(t, blobs, "c", uuid.NewString(), "never named").URL, part(t, blobs, "unknown", uuid.NewString(), "of nobody").URL}
	age(t, dir)
	fresh := part(t, blobs, "c", uuid.NewString(), "on its way").URL
	sweep := maintenance.NewOrphans(maintenance.OrphansConfig{Store: s, Uploads: []maintenance.Uploads{blobs}, Since: c.Now(), Clock: c})
	mover := maintenance.NewMover(maintenance.MoverConfig{Store: s, Blobs: blobs})
	found := map[string]bool{}
	if _, err := mover.Verify(t.Context(), func(_ bloom.VerifyReport, d *bloom.ContentDefect) {
		if d != nil && d.Kind == maintenance.ContentOrphaned {
			found[d.URL] = true
		}
	}); err != nil || len(found) != 2 || !found[orphans[0]] || !found[orphans[1]] {
		t.Errorf("verify calls orphaned %v, %v", found, err)
	}
	c.advance(sweptAfter)
	runOnce(t, sweep)
	for _, url := range append(kept.URLs(), fresh) {
		content, err := blobs.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s was swept: %v", url, err)
		}
		content.Close()
	}
	for _, url := range orphans {
		if _, err := blobs.Open(t.Context(), url); bloom.KindOf(err) != bloom.KindNotFound {
			t.Errorf("%s: %v, want it swept", url, err)
		}
	}
}

func TestContextsAreForgottenByThemselvesOnlyWhenAskedTo(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]time.Duration{"off": 0, "a month": month} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s := open(t, c)
			blobs, dir := openBlobs(t)
			spoken(t, s, blobs)
			var observed contract.Removed
			loop := maintenance.NewRetention(maintenance.RetentionConfig{Store: s, Contents: blobs, Clock: c, Keep: contract.Keep{Contexts: keep}, Removed: func(r contract.Removed) { observed.Add(r) }})
			c.advance(month - time.Minute)
			runOnce(t, loop)
			if n := files(t, dir); n != 3 {
				t.Fatalf("%d of 3 parts are left before the time", n)
			}
			c.advance(2 * time.Minute)
			runOnce(t, loop)
			want, parts := int64(0), 3
			if keep > 0 {
				want, parts = 1, 0
			}
			if n := files(t, dir); n != parts || observed.Contexts != want {
				t.Errorf("%d parts are left, observed %+v", n, observed)
			}
			forgotten, err := s.Forgotten(t.Context(), 0, 10)
			if err != nil || int64(len(forgotten)) != want {
				t.Fatalf("workers get %v, %v", forgotten, err)
			}
			c.advance(contract.ForgottenRetention + time.Minute)
			runOnce(t, loop)
			if forgotten, err := s.Forgotten(t.Context(), 0, 10); err != nil || len(forgotten) != 0 {
				t.Errorf("after their time workers get %v, %v", forgotten, err)
			}
		})
	}
}
