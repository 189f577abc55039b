package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// place is one node, named here, with a memory and the bucket.
type place struct {
	testing.TB
	dir    string
	bucket *objects.Bucket
}

func newPlace(t testing.TB, dir string, c objects.Config) *place {
	b, err := objects.Open(c)
	if err == nil {
		err = b.Ensure(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return &place{TB: t, dir: dir, bucket: b}
}

// put stores a small object of the project, replacing an existing one.
func (p *place) put(name string, value any) {
	p.Helper()
	key := "projects/" + memory.CanonicalID(project) + "/" + name
	data, err := json.Marshal(value)
	_, now, _ := p.bucket.Read(p.Context(), key)
	if err == nil {
		_, err = p.bucket.Swap(p.Context(), key, data, now.ETag)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// stored reads a small object from the place's bucket, or from one whose name has the suffix
// beside.
func (p *place) stored(beside, project, name string) string {
	data, _, err := p.bucket.Sibling(p.bucket.Name()+beside).Read(p.Context(), "projects/"+memory.CanonicalID(project)+"/"+name)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (p *place) locked(age time.Duration) {
	p.put("locks/active.lock", memory.Lock{Holder: "other", Timestamp: time.Now().Add(-age).Unix()})
}

func (p *place) led(by string) {
	p.put("leadership/lease.json", memory.Lease{PrimaryNode: by, Epoch: 1, LeaseSeconds: 3600, ExpiresAt: time.Now().Add(time.Hour).Unix()})
}

// pushedBy stores a memory that differs from the local one.
func (p *place) pushedBy(node string) {
	p.Helper()
	db := filepath.Join(p.dir, "pushed", "claude-mem.db")
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		p.Fatal(err)
	}
	for range 5 {
		observe(p, db)
	}
	m, err := memory.New(memory.Config{Project: project, Node: node, DB: db, Bucket: p.bucket})
	if err == nil {
		_, err = m.Push(p.Context())
	}
	if err != nil {
		p.Fatal(err)
	}
}

// backups creates safety backups of these ages beside the database.
func (p *place) backups(ages ...time.Duration) {
	for i, age := range ages {
		folder := filepath.Join(p.dir, "backups", "pull-overwrite", fmt.Sprintf("2020010%d-000000.000000000", i+1))
		at := time.Now().Add(-age)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			p.Fatal(err)
		}
		if err := os.Chtimes(folder, at, at); err != nil {
			p.Fatal(err)
		}
	}
}

func withMemory(s *stage) { memoryCase{}.prepare(s.memoryPlace()) }

func (s *stage) memoryPlace() *place {
	c := miniotest.Shared(s).Bucket()
	withStorage(s, c)
	return newPlace(s.T, s.dir, c)
}

// memoryFlags returns what a worker with a memory requires, without the flag but.
func memoryFlags(but string) (flags []string) {
	for _, f := range []string{"--minio-endpoint={minio}", "--minio-access-key={minio-key}", "--minio-secret-key={minio-secret}",
		"--memory-project=garden", "--memory-db={dir}/here.db", "--memory-node=here", "--memory-minio-bucket={bucket}",
		"--name=mover", "--membridge-interval=1s", "--membridge-server-url={bridge}"} {
		if name, _, _ := strings.Cut(f, "="); name != but {
			flags = append(flags, f)
		}
	}
	return flags
}
