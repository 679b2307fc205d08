package blob

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"modelgate/internal/secret"
)

// S3 says which bucket keeps files, and how it is reached.
type S3 struct {
	Endpoint  string // base address, as https://s3.eu-central-1.amazonaws.com
	Region    string // empty is us-east-1
	Bucket    string
	Prefix    string // of the names in the bucket; empty is none
	AccessKey secret.String
	SecretKey secret.String
	PathStyle bool // the bucket stands in the path and not in the host
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Check says which field can't be meant, and why.
func (o *S3) Check() (field string, err error) {
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "endpoint", errors.New("an endpoint is the address of a server, as https://s3.eu-central-1.amazonaws.com")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return "endpoint", errors.New("an endpoint has neither credentials nor a path; the bucket has a field of its own")
	case !bucketForm.MatchString(o.Bucket):
		return "bucket", errors.New("a bucket has 3 to 63 lower-case letters, digits, dots and dashes")
	case o.Prefix != "" && check(strings.TrimSuffix(o.Prefix, "/")) != nil:
		return "prefix", errors.New("a prefix is a relative path, as modelgate/exports")
	case o.AccessKey.Empty():
		return "access_key", errors.New("the bucket needs an access key")
	case o.SecretKey.Empty():
		return "secret_key", errors.New("the bucket needs a secret key")
	}
	return "", nil
}

// Bounds of speaking to a bucket.
const (
	partSize = 16 << 20 // held in memory while it is sent; 10,000 of them are a file
	tries    = 4
)

// Bucket keeps files in a bucket. See [OpenBucket].
type Bucket struct {
	client       *minio.Client
	name, prefix string
}

var _ Store = (*Bucket)(nil)

// OpenBucket returns the store of a bucket. Nothing is asked of the server yet.
func OpenBucket(o S3) (*Bucket, error) {
	if field, err := o.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(o.AccessKey.Reveal(), o.SecretKey.Reveal(), ""),
		Secure:       u.Scheme == "https",
		Region:       cmp.Or(o.Region, "us-east-1"),
		BucketLookup: lookup,
		MaxRetries:   tries,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	prefix := strings.TrimSuffix(o.Prefix, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &Bucket{client, o.Bucket, prefix}, nil
}

// Put implements [Store]. A large file is sent in parts, which become a file
// with the last of them.
func (b *Bucket) Put(ctx context.Context, name string, r io.Reader) (int64, error) {
	if err := check(name); err != nil {
		return 0, err
	}
	src := &source{r: r}
	ahead, size := bufio.NewReader(src), int64(-1)
	if _, err := ahead.Peek(1); errors.Is(err, io.EOF) {
		size = 0 // a part that is empty is not taken everywhere
	}
	info, err := b.client.PutObject(ctx, b.name, b.prefix+name, ahead, size, minio.PutObjectOptions{
		PartSize: partSize, ContentType: "application/octet-stream",
		SendContentMd5: true, DisableContentSha256: true, // the other way, signed chunks, many servers keep as they come
	})
	if src.err != nil {
		return 0, src.err
	}
	return info.Size, told(err)
}

// Get implements [Store].
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	o, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err == nil {
		_, err = o.Stat() // the first request
	}
	if err != nil {
		return nil, told(err)
	}
	return o, nil
}

// Delete implements [Store]. Parts go too that an upload left behind which was
// interrupted; servers without a list of those keep them.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := check(name); err != nil {
		return err
	}
	err := told(b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		b.client.RemoveIncompleteUpload(ctx, b.name, b.prefix+name)
		return nil
	}
	return err
}

// Link implements [Store].
func (b *Bucket) Link(ctx context.Context, name, as string, life time.Duration) (string, error) {
	if err := check(name); err != nil {
		return "", err
	}
	u, err := b.client.PresignedGetObject(ctx, b.name, b.prefix+name, life, url.Values{
		"response-content-disposition": {mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(as)})},
	})
	if err != nil {
		return "", told(err)
	}
	return u.String(), nil
}

// told turns what the server says into a fault: its word for what is wrong, and
// nothing else of it.
func told(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	said, ok := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !ok:
		return fault(err, "the bucket can't be reached")
	case said.Code == "NoSuchKey":
		return fs.ErrNotExist
	}
	return fault(err, "the bucket refuses: %.60s", said.Code)
}
