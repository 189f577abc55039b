package memory_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// TestMeasureMoving compares a push and a pull of a large memory with cp and with a plain upload
// and download of the same file, alternately, each push and pull in a separate process:
//
//	BLOOM_MEASURE_MIB=500 go test ./internal/memory -run TestMeasureMoving -v -timeout 30m
func TestMeasureMoving(t *testing.T) { //nolint:paralleltest // it measures
	mib, err := strconv.Atoi(os.Getenv("BLOOM_MEASURE_MIB"))
	if err != nil {
		t.Skip("set BLOOM_MEASURE_MIB, such as 500")
	}
	config := miniotest.Start(t).Bucket()
	b, err := objects.Open(config)
	if err == nil {
		err = b.Ensure(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write()
	if _, err := one.plugin().ExecContext(t.Context(), `WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
		INSERT INTO observations (text) SELECT hex(randomblob(500)) FROM i`, mib*1000); err != nil {
		t.Fatal(err)
	}
	if _, err := one.plugin().ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	two.write("something else")
	took, peak := map[string][]time.Duration{}, map[string]int{}
	time1 := func(what string, do func() error) {
		began := time.Now()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		took[what] = append(took[what], time.Since(began))
	}
	moved := func(what string, c child) {
		time1(what, func() error {
			kib := c.peak(t)
			peak[what] = max(peak[what], kib)
			return nil
		})
	}
	for round := range 3 {
		one.write(fmt.Sprint("round ", round))
		time1("cp", func() error { return copyAndSync(one.DB, filepath.Join(t.TempDir(), "copy")) })
		time1("upload", func() error {
			f, err := os.Open(one.DB)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			_, err = b.Upload(t.Context(), "plain", f, info.Size(), "application/octet-stream")
			return err
		})
		moved("push", child{Bucket: config, Node: "one", DB: one.DB})
		time1("download", func() error {
			r, _, err := b.Open(t.Context(), "plain")
			if err != nil {
				return err
			}
			defer r.Close()
			return write(r, filepath.Join(t.TempDir(), "download"))
		})
		moved("pull", child{Bucket: config, Node: "two", DB: two.DB, Pull: true})
	}
	middle := func(what string) float64 {
		slices.Sort(took[what])
		return took[what][len(took[what])/2].Seconds()
	}
	for _, what := range []string{"cp", "upload", "push", "download", "pull"} {
		t.Logf("%-8s %6.2f s (%.2f to %.2f)", what, middle(what), took[what][0].Seconds(), took[what][len(took[what])-1].Seconds())
	}
	t.Logf("push: %.1f × cp, %.1f × upload, VmHWM %d MiB", middle("push")/middle("cp"), middle("push")/middle("upload"), peak["push"]>>10)
	t.Logf("pull: %.1f × cp, %.1f × download, VmHWM %d MiB", middle("pull")/middle("cp"), middle("pull")/middle("download"), peak["pull"]>>10)
}

func copyAndSync(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(f, to)
}

func write(r io.Reader, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(to))
}

// peak runs the child and returns its VmHWM in KiB.
func (c child) peak(t *testing.T) (kib int) {
	t.Helper()
	c.Measure = true
	_, kib = c.run(t)
	return kib
}

// highWater returns this process's VmHWM in KiB; 0 if unknown.
func highWater() (kib int) {
	text, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	_, _ = fmt.Sscan(after, &kib)
	return kib
}
