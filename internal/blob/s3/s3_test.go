package s3_test

import (
	"testing"

	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/blob/blobtest"
	"github.com/bloom-runtime/bloom/internal/blob/s3"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

func TestMinIOMeetsTheContract(t *testing.T) {
	t.Parallel()
	meetsTheContract(t, miniotest.Start(t))
}

func TestVersityMeetsTheContract(t *testing.T) {
	t.Parallel()
	meetsTheContract(t, miniotest.StartVersity(t))
}

func meetsTheContract(t *testing.T, server *miniotest.Server) {
	t.Helper()
	blobtest.Run(t, func(t *testing.T) blob.Blobs {
		bucket, err := objects.Open(server.Bucket())
		if err != nil {
			t.Fatal(err)
		}
		if err := bucket.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s3.New(bucket, blob.InstallationArea("0199-one"))
	})
}
