package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ObjectStorage configures access to an S3-compatible object storage.
type ObjectStorage struct {
	MinioEndpoint      string `name:"minio-endpoint" var:"MINIO_ENDPOINT" key:"minio_endpoint" placeholder:"HOST" help:"Object storage (S3, MinIO): a host, host:port or URL."`
	MinioPort          int    `name:"minio-port" var:"MINIO_PORT" key:"minio_port" placeholder:"N" help:"Port of the object storage, if --minio-endpoint has none."`
	MinioUseSSL        bool   `name:"minio-use-ssl" var:"MINIO_USE_SSL" key:"minio_use_ssl" help:"Use TLS for the object storage; implied by an https URL."`
	MinioRegion        string `name:"minio-region" var:"MINIO_REGION" key:"minio_region" default:"us-east-1" placeholder:"NAME" help:"Region of the object storage."`
	MinioAccessKey     Secret `name:"minio-access-key" var:"MINIO_ACCESS_KEY" key:"minio_access_key" placeholder:"KEY" help:"Access key of the object storage."`
	MinioSecretKey     Secret `name:"minio-secret-key" var:"MINIO_SECRET_KEY" key:"minio_secret_key" hidden:"" help:"Secret key of the object storage; better given as a file."`
	MinioSecretKeyFile string `name:"minio-secret-key-file" var:"MINIO_SECRET_KEY_FILE" key:"minio_secret_key_file" placeholder:"FILE" help:"File with the secret key of the object storage."`
}

// Address returns the storage's host:port, and whether to use TLS.
func (o *ObjectStorage) Address() (address string, tls bool, err error) {
	host, tls := o.MinioEndpoint, o.MinioUseSSL
	if strings.Contains(host, "://") {
		u, err := url.Parse(host)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return "", false, fmt.Errorf("--minio-endpoint: %q is not an address like minio.lan:9000 or http://minio.lan:9000", host)
		}
		host, tls = u.Host, tls || u.Scheme == "https"
	}
	if host == "" {
		return "", false, errors.New("no object storage: set MINIO_ENDPOINT or --minio-endpoint")
	}
	if _, _, err := net.SplitHostPort(host); err != nil && o.MinioPort != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(o.MinioPort))
	}
	return host, tls, nil
}

// Finish reads the secret key's file and validates the address.
func (o *ObjectStorage) Finish() error {
	if _, _, err := o.Address(); err != nil {
		return err
	}
	if err := ReadKey("--minio-secret-key-file", "MINIO_SECRET_KEY", &o.MinioSecretKey, o.MinioSecretKeyFile); err != nil {
		return err
	}
	if o.MinioAccessKey == "" || o.MinioSecretKey == "" {
		return errors.New("the object storage requires keys: set MINIO_ACCESS_KEY, and MINIO_SECRET_KEY or --minio-secret-key-file")
	}
	return nil
}

// Bucket configures a server's object storage, as MINIO_* or one URL.
type Bucket struct {
	ObjectStorage
	ArtifactBucket string `name:"minio-artifact-bucket" var:"MINIO_ARTIFACT_BUCKET" key:"minio_artifact_bucket" default:"bloom-artifacts" placeholder:"NAME" help:"Bucket for artifacts; created if missing."`
	BlobURL        Secret `name:"blob-url" var:"BLOOM_BLOB_URL" key:"blob_url" placeholder:"URL" help:"Object storage for artifacts as one URL, instead of MINIO_*: s3://[KEY:SECRET@]HOST[:PORT]/BUCKET[?region=NAME][&tls=false]."`
}

// Artifacts configures where a server stores artifacts; without an endpoint or URL in the data
// folder.
type Artifacts struct {
	Bucket
	ArtifactLimitMiB   int    `name:"artifact-limit-mib" var:"BLOOM_ARTIFACT_LIMIT_MIB" key:"artifact_limit_mib" default:"1024" placeholder:"N" help:"Largest file that workers may upload as an artifact, in MiB; 0 disables uploads."`
	AttachmentLimitMiB int    `name:"attachment-limit-mib" var:"BLOOM_ATTACHMENT_LIMIT_MIB" key:"attachment_limit_mib" default:"25" placeholder:"N" help:"Most that the files posted with a task may have together, in MiB; 0 accepts none."`
	RunTranscripts     string `name:"run-transcripts" var:"BLOOM_RUN_TRANSCRIPTS" key:"run_transcripts" default:"auto" enum:"auto,always,never" help:"When a run's events are saved as an artifact. always: when it ends; never; auto: when it ends if object storage is configured, otherwise before --retention-events removes them."`
}

// InObjects reports whether object storage is configured.
func (a *Bucket) InObjects() bool { return a.MinioEndpoint != "" }

// maxFileMiB is the largest file that can be configured, in MiB: an object can have 5 TiB.
const maxFileMiB = 5 << 20

// maxAttachmentsMiB bounds --attachment-limit-mib: the slowest upload ends long before it counts as
// orphaned.
const maxAttachmentsMiB = 1 << 10

// Transcribe reports whether runs' events become artifacts at all, and whether they do so when the
// run ends.
func (a *Artifacts) Transcribe() (kept, atEnd bool) {
	return a.RunTranscripts != "never", a.RunTranscripts == "always" || a.RunTranscripts == "auto" && a.InObjects()
}

// Finish validates the settings.
func (a *Artifacts) Finish() error {
	if a.ArtifactLimitMiB < 0 || a.ArtifactLimitMiB > maxFileMiB {
		return fmt.Errorf("--artifact-limit-mib: %d is not between 0 and %d", a.ArtifactLimitMiB, maxFileMiB)
	}
	if a.AttachmentLimitMiB < 0 || a.AttachmentLimitMiB > maxAttachmentsMiB {
		return fmt.Errorf("--attachment-limit-mib: %d is not between 0 and %d", a.AttachmentLimitMiB, maxAttachmentsMiB)
	}
	return a.Bucket.Finish()
}

// Finish parses --blob-url and validates the result.
func (a *Bucket) Finish() error {
	if a.BlobURL != "" {
		if err := a.fromURL(); err != nil {
			return fmt.Errorf("--blob-url: %w", err)
		}
	}
	if !a.InObjects() {
		return nil
	}
	return a.ObjectStorage.Finish()
}

// fromURL applies --blob-url. Its errors never show the URL, which may contain keys.
func (a *Bucket) fromURL() error {
	if a.MinioEndpoint != "" {
		return errors.New("MINIO_ENDPOINT (--minio-endpoint) is set, too; set only one")
	}
	u, err := url.Parse(string(a.BlobURL))
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return errors.New("is not a URL like s3://minio.lan:9000/bloom-artifacts?tls=false")
	}
	bucket := strings.Trim(u.Path, "/")
	if bucket == "" || strings.Contains(bucket, "/") {
		return errors.New("must have one bucket after the host, as in s3://minio.lan:9000/bloom-artifacts")
	}
	a.MinioEndpoint, a.ArtifactBucket, a.MinioUseSSL = u.Host, bucket, true
	for name, values := range u.Query() {
		switch name {
		case "region":
			a.MinioRegion = values[0]
		case "tls":
			if a.MinioUseSSL, err = strconv.ParseBool(values[0]); err != nil {
				return fmt.Errorf("tls=%s: must be true or false", values[0])
			}
		default:
			return fmt.Errorf("unknown parameter %q; known are region and tls", name)
		}
	}
	if u.User == nil {
		return nil
	}
	secret, _ := u.User.Password()
	a.MinioAccessKey, a.MinioSecretKey, a.MinioSecretKeyFile = Secret(u.User.Username()), Secret(secret), ""
	return nil
}
