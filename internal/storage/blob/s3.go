package blob

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
)

// S3 configures a bucket.
type S3 struct {
	Endpoint  string // base address, for example https://s3.eu-central-1.amazonaws.com
	Region    string // empty is us-east-1
	Bucket    string
	Prefix    string // of the names in the bucket; empty for none
	AccessKey secret.String
	SecretKey secret.String
	PathStyle bool // the bucket is in the path instead of the host

	// Dial connects to the endpoint or its proxy. Nil means a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Check returns the invalid field and an error.
func (o *S3) Check() (field string, err error) {
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "endpoint", errors.New("the endpoint must be the address of a server, for example https://s3.eu-central-1.amazonaws.com")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return "endpoint", errors.New("the endpoint must have neither credentials nor a path; set the bucket in its own field")
	case !bucketForm.MatchString(o.Bucket):
		return "bucket", errors.New("the bucket must be 3 to 63 lower-case letters, digits, dots and dashes")
	case o.Prefix != "" && check(strings.TrimSuffix(o.Prefix, "/")) != nil:
		return "prefix", errors.New("the prefix must be a relative path, such as modelgate/exports")
	case o.AccessKey.Empty():
		return "access_key", errors.New("the access key is required")
	case o.SecretKey.Empty():
		return "secret_key", errors.New("the secret key is required")
	}
	return "", nil
}

// Bucket stores files in a bucket; see [OpenBucket].
type Bucket struct {
	S3
	base   *url.URL // of the bucket, with a trailing slash
	prefix string   // of names; empty or with a trailing slash
	client *http.Client
}

var _ Store = (*Bucket)(nil)

// OpenBucket returns the store of a bucket. It sends no request.
func OpenBucket(o S3) (*Bucket, error) {
	if field, err := o.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	base, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	base.Path = "/"
	if o.PathStyle {
		base.Path = "/" + o.Bucket + "/"
	} else {
		base.Host = o.Bucket + "." + base.Host
	}
	o.Region = cmp.Or(o.Region, "us-east-1")
	b := &Bucket{S3: o, base: base, client: &http.Client{Transport: o.transport(), CheckRedirect: refuseRedirect}}
	if p := strings.TrimSuffix(o.Prefix, "/"); p != "" {
		b.prefix = p + "/"
	}
	return b, nil
}

// headerTimeout is the time limit for response headers.
const headerTimeout = time.Minute

func (o *S3) transport() *http.Transport {
	return &http.Transport{
		DialContext: o.Dial,
		Proxy:       http.ProxyFromEnvironment, ResponseHeaderTimeout: headerTimeout, TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, DisableCompression: true,
	}
}

// refuseRedirect returns a redirect as the response: a request that follows it would
// have another method or no signature.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Put implements [Store]. Files larger than a part are uploaded in parts, which become
// a file with the last of them.
func (b *Bucket) Put(ctx context.Context, name string, r io.Reader) (int64, error) {
	if err := check(name); err != nil {
		return 0, err
	}
	first, err := readPart(r)
	if err != nil {
		return 0, err
	}
	if len(first) < partSize {
		_, err := b.ask(ctx, http.MethodPut, b.prefix+name, nil, first)
		return int64(len(first)), err
	}
	return b.putParts(ctx, b.prefix+name, r, first)
}

// readPart reads until a part is full or r ends. Small files need little memory.
func readPart(r io.Reader) ([]byte, error) {
	var buf []byte
	for size := smallPart; ; size *= 4 {
		n := len(buf)
		buf = append(make([]byte, 0, min(size, partSize)), buf...)
		m, err := readFull(r, buf[n:cap(buf)])
		if buf = buf[:n+m]; err != nil || len(buf) < cap(buf) || len(buf) == partSize {
			return buf, err
		}
	}
}

// readFull reads until buf is full or r ends.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// Delete implements [Store]. Servers that do not list interrupted uploads keep their
// parts.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := check(name); err != nil {
		return err
	}
	_, err := b.ask(ctx, http.MethodDelete, b.prefix+name, nil, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.abortAll(ctx, b.prefix+name)
	return nil
}

// Link implements [Store].
func (b *Bucket) Link(_ context.Context, name, as string, life time.Duration) (string, error) {
	if err := check(name); err != nil {
		return "", err
	}
	at := b.address(b.prefix+name, url.Values{"response-content-disposition": {`attachment; filename="` + as + `"`}})
	return sigv4.Link(at, b.keys(), b.scope(), life, time.Now())
}

func (b *Bucket) keys() sigv4.Keys { return sigv4.Keys{ID: b.AccessKey.Reveal(), Secret: b.SecretKey} }

func (b *Bucket) scope() sigv4.Scope { return sigv4.Scope{Region: b.Region, Service: sigv4.S3} }

func (b *Bucket) address(key string, query url.Values) url.URL {
	u := *b.base
	u.Path += key
	u.RawQuery = query.Encode()
	return u
}

// ask sends a request and returns the response, which must be short.
func (b *Bucket) ask(ctx context.Context, method, key string, query url.Values, body []byte) (responseParts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	for n := 1; ; n++ {
		resp, err := b.send(ctx, call{method: method, key: key, query: query, body: body})
		if err != nil && context.Cause(ctx) == errSlow {
			err = fault(err, "the bucket is too slow")
		}
		if err != nil {
			return responseParts{}, err
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
		resp.Body.Close()
		switch {
		case err == nil:
			return responseParts{text: text, etag: resp.Header.Get("ETag")}, nil
		case n == tries || ctx.Err() != nil:
			return responseParts{}, fault(err, "the bucket cannot be reached")
		}
	}
}

// call is a request to a bucket. The empty key is the bucket itself.
type call struct {
	method, key string
	query       url.Values
	header      http.Header // in addition to those of the signature
	body        []byte
}

// responseParts is a response without its status.
type responseParts struct {
	text []byte
	etag string
}

// Limits of one request including its retries.
const (
	maxResponse    = 8 << 20 // a page of a list has 1000 names
	requestTimeout = 10 * time.Minute
)

var errSlow = errors.New("the bucket did not respond to a request in time")

// send sends a request, with retries if they may help, and returns a successful
// response, whose body the caller must close.
func (b *Bucket) send(ctx context.Context, c call) (*http.Response, error) {
	pause := 200 * time.Millisecond
	for n := 1; ; n++ {
		resp, again, err := b.sendOnce(ctx, c)
		if err == nil || !again || n == tries {
			return resp, err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
		pause *= 2
	}
}

// sendOnce sends a request once, and reports whether a retry may help.
func (b *Bucket) sendOnce(ctx context.Context, c call) (resp *http.Response, again bool, err error) {
	at := b.address(c.key, c.query)
	req, err := http.NewRequestWithContext(ctx, c.method, at.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, false, err
	}
	maps.Copy(req.Header, c.header)
	sum := sha256.Sum256(c.body)
	if err := sigv4.Sign(req, b.keys(), b.scope(), hex.EncodeToString(sum[:]), time.Now()); err != nil {
		return nil, false, err
	}
	if resp, err = b.client.Do(req); err != nil {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		return nil, true, fault(err, "the bucket cannot be reached")
	}
	if resp.StatusCode/100 == 2 {
		return resp, false, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse)) // the part that was read is enough
	return nil, resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, serverError(resp.StatusCode, text)
}

var codeForm = regexp.MustCompile(`^[A-Za-z0-9.]{1,60}$`)

// remedies say what to do about errors that come from settings.
var remedies = map[string]string{
	"AuthorizationHeaderMalformed": "check the region",
	"InvalidAccessKeyId":           "check the access key",
	"PermanentRedirect":            "check the endpoint and the region",
	"RequestTimeTooSkewed":         "check the clock of this machine",
	"SignatureDoesNotMatch":        "check the secret key",
}

// serverError returns the error of a response, with the server's error code only.
func serverError(status int, text []byte) error {
	var said struct{ Code string }
	xml.Unmarshal(text, &said) // invalid XML has no code
	switch {
	case said.Code == "NoSuchKey", said.Code == "" && status == http.StatusNotFound:
		return fs.ErrNotExist
	case !codeForm.MatchString(said.Code):
		said.Code = "status " + strconv.Itoa(status)
	}
	f := fault(fmt.Errorf("status %d, %s", status, said.Code), "the bucket rejected the request: %s", said.Code)
	if f.status = status; remedies[said.Code] != "" {
		f.Reason += "; " + remedies[said.Code]
	}
	return f
}
