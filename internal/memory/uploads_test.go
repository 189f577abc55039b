package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
)

// The parts of a large upload that was killed are paid for until someone removes them.
func TestAnUnfinishedUploadIsRemovedByALaterPush(t *testing.T) {
	t.Parallel()
	c := miniotest.StartVersity(t).Bucket()
	now := time.Now()
	one := newNode(t, open(t, c), "one", func(c *memory.Config) { c.Now = func() time.Time { return now } })
	one.write("a")
	one.push()
	client, err := minio.NewCore(c.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	key := "projects/" + one.ID() + "/sqlite/versions/" + strings.Repeat("0", 64) + ".db"
	if _, err := client.NewMultipartUpload(t.Context(), c.Bucket, key, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	unfinished := func() (n int) {
		for up := range client.ListIncompleteUploads(t.Context(), c.Bucket, "projects/", true) {
			if up.Err != nil {
				t.Fatal(up.Err)
			}
			n++
		}
		return n
	}
	one.write("b")
	one.push()
	if n := unfinished(); n != 1 {
		t.Fatalf("%d uploads, which another push may be using", n)
	}
	now = now.Add(memory.DefaultLockTTL + memory.DefaultLockGrace + time.Hour)
	one.write("c")
	one.push()
	if n := unfinished(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}
