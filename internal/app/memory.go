package app

import (
	"time"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// openBucket returns a client of a bucket, without making a request.
func openBucket(c config.ObjectStorage, name string) (*objects.Bucket, error) {
	address, tls, err := c.Address()
	if err != nil {
		return nil, ConfigError{err}
	}
	return objects.Open(objects.Config{Endpoint: address, AccessKey: string(c.MinioAccessKey), SecretKey: string(c.MinioSecretKey),
		Region: c.MinioRegion, Bucket: name, TLS: tls, Transport: nil, Stall: objects.DefaultStall, Tries: objects.DefaultTries})
}

// OpenMemory returns one project's memory, without making a request. progress, if not nil, is
// called at each step of a push or pull.
func OpenMemory(c config.Memory, progress func(string)) (*memory.Project, error) {
	bucket, err := openBucket(c.ObjectStorage, c.MinioBucket)
	if err != nil {
		return nil, err
	}
	grace := config.Seconds(c.LockGraceSeconds)
	if grace == 0 {
		grace = -1
	}
	return memory.New(memory.Config{
		Project: c.Project, Node: c.Node, DB: c.DB, Bucket: bucket,
		LockTTL: config.Seconds(c.LockTTLSeconds), LockGrace: grace, ForcePush: c.ForcePush,
		IgnoreLeadership: !c.Leadership, Lease: config.Seconds(c.LeaseSeconds), Primary: c.PrimaryNode,
		SecondaryMayPush: c.AllowSecondaryPush, PrimaryMayPull: c.AllowPrimaryPull,
		BackupAge: time.Duration(c.BackupMaxDays) * 24 * time.Hour, BackupCount: c.BackupMaxCount,
		Now: nil, Progress: progress,
	})
}
