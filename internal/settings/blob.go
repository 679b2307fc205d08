package settings

import (
	"errors"

	"modelgate/internal/blob"
	"modelgate/internal/secret"
)

// Blob is where files are kept: in the data folder, unless a bucket is named.
type Blob struct {
	S3 S3 `json:"s3,omitzero"`
}

// S3 is a bucket of a server that speaks S3.
type S3 struct {
	Endpoint  string `json:"endpoint,omitempty" maxLength:"2048" doc:"Base address of the server, as https://s3.eu-central-1.amazonaws.com"`
	Region    string `json:"region,omitempty" maxLength:"64" doc:"us-east-1 when absent"`
	Bucket    string `json:"bucket,omitempty" maxLength:"63"`
	Prefix    string `json:"prefix,omitempty" maxLength:"255" doc:"Stands before all names in the bucket"`
	AccessKey string `json:"access_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	SecretKey string `json:"secret_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	PathStyle bool   `json:"path_style,omitempty" doc:"The bucket stands in the path of addresses, not in their host"`

	access, secret secret.String
}

// Configured reports whether files are kept in a bucket.
func (s *S3) Configured() bool { return s.Endpoint != "" }

// Options returns the bucket with its opened keys.
func (s *S3) Options() blob.S3 {
	return blob.S3{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix,
		AccessKey: s.access, SecretKey: s.secret, PathStyle: s.PathStyle,
	}
}

// Exports is how files of the log are made and kept.
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
		return at(errors.New("files are kept for a day at least"), "exports.keep_days")
	case e.MaxSize != 0 && e.MaxSize < smallest:
		return at(errors.New("files need at least 1 MB"), "exports.max_size")
	}
	return nil
}
