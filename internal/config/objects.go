package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ObjectStorage says where an S3-compatible object storage is and who asks.
type ObjectStorage struct {
	MinioEndpoint      string `name:"minio-endpoint" var:"MINIO_ENDPOINT" key:"minio_endpoint" placeholder:"HOST" help:"Object storage (S3, MinIO): a host, host:port or URL."`
	MinioPort          int    `name:"minio-port" var:"MINIO_PORT" key:"minio_port" placeholder:"N" help:"Port of the object storage, where --minio-endpoint has none."`
	MinioUseSSL        bool   `name:"minio-use-ssl" var:"MINIO_USE_SSL" key:"minio_use_ssl" help:"Speak TLS to the object storage; a URL that begins with https does the same."`
	MinioRegion        string `name:"minio-region" var:"MINIO_REGION" key:"minio_region" default:"us-east-1" placeholder:"NAME" help:"Region of the object storage."`
	MinioAccessKey     Secret `name:"minio-access-key" var:"MINIO_ACCESS_KEY" key:"minio_access_key" placeholder:"KEY" help:"Access key of the object storage."`
	MinioSecretKey     Secret `name:"minio-secret-key" var:"MINIO_SECRET_KEY" key:"minio_secret_key" hidden:"" help:"Secret key of the object storage; better given as a file."`
	MinioSecretKeyFile string `name:"minio-secret-key-file" var:"MINIO_SECRET_KEY_FILE" key:"minio_secret_key_file" placeholder:"FILE" help:"File with the secret key of the object storage."`
}

// Address is the storage's host:port, and whether it speaks TLS.
func (o *ObjectStorage) Address() (address string, tls bool, err error) {
	host, tls := o.MinioEndpoint, o.MinioUseSSL
	if strings.Contains(host, "://") {
		u, err := url.Parse(host)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return "", false, fmt.Errorf("--minio-endpoint: %q is no address like minio.lan:9000 or http://minio.lan:9000", host)
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

// Finish reads the secret key's file and checks the address.
func (o *ObjectStorage) Finish() error {
	if _, _, err := o.Address(); err != nil {
		return err
	}
	if err := ReadKey("--minio-secret-key-file", "MINIO_SECRET_KEY", &o.MinioSecretKey, o.MinioSecretKeyFile); err != nil {
		return err
	}
	if o.MinioAccessKey == "" || o.MinioSecretKey == "" {
		return errors.New("no keys for the object storage: set MINIO_ACCESS_KEY, and MINIO_SECRET_KEY or --minio-secret-key-file")
	}
	return nil
}

// Artifacts says where a server keeps artifacts; without an endpoint or URL that is
// the data folder.
type Artifacts struct {
	ObjectStorage
	ArtifactBucket   string `name:"minio-artifact-bucket" var:"MINIO_ARTIFACT_BUCKET" key:"minio_artifact_bucket" default:"bloom-artifacts" placeholder:"NAME" help:"Bucket for artifacts; made when it is missing."`
	BlobURL          Secret `name:"blob-url" var:"BLOOM_BLOB_URL" key:"blob_url" placeholder:"URL" help:"Object storage for artifacts in one address, in place of MINIO_*: s3://[KEY:SECRET@]HOST[:PORT]/BUCKET[?region=NAME][&tls=false]."`
	ArtifactLimitMiB int    `name:"artifact-limit-mib" var:"BLOOM_ARTIFACT_LIMIT_MIB" key:"artifact_limit_mib" default:"1024" placeholder:"N" help:"Largest file that workers may upload as an artifact, in MiB; 0 takes none."`
	RunTranscripts   string `name:"run-transcripts" var:"BLOOM_RUN_TRANSCRIPTS" key:"run_transcripts" default:"auto" enum:"auto,always,never" help:"When a run's events become an artifact: always at its end; never; auto at its end with object storage, and otherwise before --retention-events removes them."`
}

// InObjects reports whether artifacts are kept in object storage.
func (a *Artifacts) InObjects() bool { return a.MinioEndpoint != "" }

// maxFileMiB bounds what a file may be configured to have, in MiB: object storage takes
// 5 TiB in one object.
const maxFileMiB = 5 << 20

// Transcribe reports whether runs' events become artifacts at all, and whether they do
// so at each run's end.
func (a *Artifacts) Transcribe() (kept, atEnd bool) {
	return a.RunTranscripts != "never", a.RunTranscripts == "always" || a.RunTranscripts == "auto" && a.InObjects()
}

// Finish takes --blob-url apart and checks the whole.
func (a *Artifacts) Finish() error {
	if a.ArtifactLimitMiB < 0 || a.ArtifactLimitMiB > maxFileMiB {
		return fmt.Errorf("--artifact-limit-mib: %d is not between 0 and %d", a.ArtifactLimitMiB, maxFileMiB)
	}
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

// fromURL replaces what the address says. Its errors never show it: it may hold keys.
func (a *Artifacts) fromURL() error {
	if a.MinioEndpoint != "" {
		return errors.New("MINIO_ENDPOINT (--minio-endpoint) is set too; keep one")
	}
	u, err := url.Parse(string(a.BlobURL))
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return errors.New("is no address like s3://minio.lan:9000/bloom-artifacts?tls=false")
	}
	bucket := strings.Trim(u.Path, "/")
	if bucket == "" || strings.Contains(bucket, "/") {
		return errors.New("must name one bucket after the host, as in s3://minio.lan:9000/bloom-artifacts")
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
			return fmt.Errorf("unknown parameter %q; there are region and tls", name)
		}
	}
	if u.User == nil {
		return nil
	}
	secret, _ := u.User.Password()
	a.MinioAccessKey, a.MinioSecretKey, a.MinioSecretKeyFile = Secret(u.User.Username()), Secret(secret), ""
	return nil
}
