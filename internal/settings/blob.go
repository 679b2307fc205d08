package settings

import (
	"errors"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/blob"
)

// Blob configures where files are stored: in the data folder, unless a bucket is
// configured.
type Blob struct {
	S3 S3 `json:"s3,omitzero"`
}

// S3 is a bucket of an S3-compatible server.
type S3 struct {
	Endpoint  string `json:"endpoint,omitempty" maxLength:"2048" doc:"Base address of the server, for example https://s3.eu-central-1.amazonaws.com"`
	Region    string `json:"region,omitempty" maxLength:"64" doc:"Defaults to us-east-1"`
	Bucket    string `json:"bucket,omitempty" maxLength:"63"`
	Prefix    string `json:"prefix,omitempty" maxLength:"255" doc:"Prefix of all names in the bucket"`
	AccessKey string `json:"access_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	SecretKey string `json:"secret_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	PathStyle bool   `json:"path_style,omitempty" doc:"Puts the bucket in the path of addresses instead of the host"`

	access, secret secret.String
}

// Configured reports whether files are stored in a bucket.
func (s *S3) Configured() bool { return s.Endpoint != "" }

// Options returns the bucket with its opened keys.
func (s *S3) Options() blob.S3 {
	return blob.S3{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix,
		AccessKey: s.access, SecretKey: s.secret, PathStyle: s.PathStyle,
	}
}

// Exports configures log exports.
type Exports struct {
	KeepDays int  `json:"keep_days,omitempty" minimum:"0" maximum:"3650"` // default 7
	MaxSize  Size `json:"max_size,omitempty"`                             // of one file; default 1 GB
}

func (s *Settings) checkBlob(o SecretResolver) *fault {
	b := &s.Blob.S3
	if *b == (S3{}) {
		return nil
	}
	var err error
	if b.access, err = o.Open(b.AccessKey); err != nil {
		return at(err, "blob.s3.access_key")
	}
	if b.secret, err = o.Open(b.SecretKey); err != nil {
		return at(err, "blob.s3.secret_key")
	}
	options := b.Options()
	if field, err := options.Check(); err != nil {
		return at(err, "blob.s3.%s", field)
	}
	return nil
}

func (e *Exports) check() *fault {
	const smallest = 1 << 20
	switch {
	case e.KeepDays < 0:
		return at(errors.New("must be at least 1"), "exports.keep_days")
	case e.MaxSize != 0 && e.MaxSize < smallest:
		return at(errors.New("must be at least 1 MB"), "exports.max_size")
	}
	return nil
}
