package memory_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the plugin's database

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// unconditional is a storage that ignores the conditions of writes.
type unconditional struct{ http.RoundTripper }

func (d unconditional) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.RoundTripper.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusPreconditionFailed {
		res.Body.Close()
		res.StatusCode, res.Status, res.Body = http.StatusOK, "200 OK", http.NoBody
		res.Header.Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	}
	return res, err
}

func TestAStorageThatIgnoresConditionsIsRefused(t *testing.T) {
	t.Parallel()
	config := miniotest.Shared(t).Bucket()
	sound, err := objects.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	config.Transport = unconditional{http.DefaultTransport}
	b, err := objects.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	one := newNode(t, b, "one")
	one.write("a")
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "ignores conditions") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = one.Push(t.Context())
	refused("a push", err)
	_, err = one.Select(t.Context(), "one", 0, false)
	refused("a selection", err)
	_, _, err = one.Follow(t.Context(), memory.Selection{Primary: "one", Epoch: 1, At: time.Now(), Until: time.Now().Add(time.Hour)})
	refused("a selection in the control plane", err)
	first := newNode(t, sound, "one")
	first.write("b")
	first.push() // creates a lease, which then need not be written
	_, err = one.Push(t.Context())
	refused("a push under a lease", err)
	reader := newNode(t, sound, "reader")
	reader.pull()
	reader.want("b")
}

// The earlier tool leaves a manifest without a version, and deletes the lock.
func foreignManifest(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	m := one.push().Manifest
	prefix := "projects/" + one.ID() + "/"
	manifest := fmt.Appendf(nil, `{"project":"garden","canonical_id":%q,"timestamp":"2026-01-02T03:04:05.678901+00:00","source_host":"one","db_size":%d,"sha256":%q,"observations":1}`,
		m.CanonicalID, m.Size, m.SHA256)
	upload(t, b, prefix+"sqlite/manifest.json", manifest)
	for _, key := range []string{prefix + "locks/active.lock", prefix + "sqlite/" + m.Version} {
		if err := b.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	two.pull()
	two.want("a")
}

func upload(t *testing.T, b *objects.Bucket, key string, data []byte) {
	t.Helper()
	_, info, err := b.Read(t.Context(), key)
	if err != nil && !errors.Is(err, objects.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := b.Swap(t.Context(), key, data, info.ETag); err != nil {
		t.Fatal(err)
	}
}

func damagedUpload(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	m := one.push()
	upload(t, b, "projects/"+one.ID()+"/sqlite/"+m.Version, []byte("something else"))
	two.write("mine")
	if _, err := two.Pull(t.Context()); err == nil {
		t.Fatal("a damaged memory was pulled")
	}
	two.want("mine")
	if got := failing(one.Doctor(t.Context(), false)); got != "stored memory" && got != "stored memory, leadership" {
		t.Fatalf("the doctor finds %q", got)
	}
}

// tampered has someone else write into the bucket. Only the project's own memory is pulled, and
// only text reaches a terminal.
func tampered(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	m := one.push().Manifest
	prefix := "projects/" + one.ID() + "/"
	overwrite(t, b, "projects/elsewhere/sqlite/claude-mem.db", []byte("not this"))
	two.write("mine")
	said := func(manifest string) (text string) {
		t.Helper()
		overwrite(t, b, prefix+"sqlite/manifest.json", []byte(manifest))
		if _, err := two.Pull(t.Context()); err == nil {
			t.Errorf("pulled by %.100s", manifest)
		} else {
			text = err.Error()
		}
		two.want("mine")
		for _, f := range two.Doctor(t.Context(), false) {
			text += f.Detail + f.Fix
		}
		return text
	}
	wrong := strings.Repeat("0", 64)
	for _, version := range []string{"../../elsewhere/sqlite/claude-mem.db", "/etc/passwd", "versions/../../elsewhere", "../../../../../etc/passwd", "."} {
		said(fmt.Sprintf(`{"sha256":%q,"db_size":8,"version":%q}`, wrong, version))
	}
	if text := said(fmt.Sprintf(`{"sha256":%q,"db_size":%d,"version":%q,"source_host":"\u001b[31mred\u0007"}`, wrong, m.Size, m.Version)); strings.ContainsAny(text, "\x1b\a") {
		t.Errorf("says %q", text)
	}
	for _, manifest := range []string{`{`, `[]`, `{"sha256":"x"}`, fmt.Sprintf(`{"sha256":%q}`, strings.Repeat("\n", 64)), `"` + strings.Repeat("x", 2<<20) + `"`,
		fmt.Sprintf(`{"sha256":%q,"db_size":1,"version":%q}`, m.SHA256, m.Version), fmt.Sprintf(`{"sha256":%q,"db_size":-1,"version":%q}`, wrong, m.Version)} {
		said(manifest)
	}
	overwrite(t, b, prefix+"locks/active.lock", []byte(`{"hostname":"\u001b[2Jevil","timestamp":9999999999}`))
	one.write("b")
	one.push() // a lock from the next century counts as none
	two.pull()
	two.want("a", "b")
	// The doctor's advice works.
	for i, garbage := range []string{"{", strings.Repeat("x", 2<<20), `{"sha256":"x"}`} {
		for _, name := range []string{"sqlite/manifest.json", "locks/active.lock", "leadership/lease.json"} {
			overwrite(t, b, prefix+name, []byte(garbage))
		}
		if _, err := one.Select(t.Context(), "one", 0, false); err != nil {
			t.Errorf("select over %.20q: %v", garbage, err)
		}
		one.write(fmt.Sprint("after ", i))
		one.push()
	}
	two.pull()
	two.want(one.observations()...)
	if got := failing(one.Doctor(t.Context(), false)); got != "" {
		t.Errorf("the doctor finds %q", got)
	}
}

// overwrite replaces an object unconditionally.
func overwrite(t *testing.T, b *objects.Bucket, key string, data []byte) {
	t.Helper()
	if _, err := b.Upload(t.Context(), key, bytes.NewReader(data), int64(len(data)), "application/json"); err != nil {
		t.Fatal(err)
	}
}

// tooLarge pulls memories that do not fit on the disk, or whose size differs from the manifest.
// Manifests of other tools need not have a size.
func tooLarge(t *testing.T, b *objects.Bucket) {
	var free uint64
	one := newNode(t, b, "one")
	two := newNode(t, b, "two", func(c *memory.Config) { c.FreeDisk = func(string) (uint64, error) { return free, nil } })
	one.write("a")
	m := one.push().Manifest
	refused := func(size int64, why string) {
		t.Helper()
		manifest := fmt.Appendf(nil, `{"sha256":%q,"db_size":%d,"version":%q}`, m.SHA256, size, m.Version)
		upload(t, b, "projects/"+one.ID()+"/sqlite/manifest.json", manifest)
		if _, err := two.Pull(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("pulled %d bytes with %d free: %v", size, free, err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(two.DB), "*")); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	refused(0, "free disk space")
	refused(m.Size, "free disk space")
	free = 1 << 40
	refused(1<<50, "another tool may be pushing")
	refused(m.Size-1, "another tool may be pushing")
	upload(t, b, "projects/"+one.ID()+"/sqlite/manifest.json", fmt.Appendf(nil, `{"sha256":%q,"version":%q}`, m.SHA256, m.Version))
	two.pull()
	two.want("a")
}
