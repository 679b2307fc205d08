// Package sigv4 signs requests to AWS and to other servers that accept its
// signatures, with the signer of the AWS SDK.
//
// It guarantees that a signature covers only what arrives as it was sent: the
// method, the path, the query, the host, the content type, AWS's own headers and
// the body. It sends nothing, reads no clock and stores nothing. It does not fetch
// keys; see provider/auth.
package sigv4

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
)

// Keys sign requests. Session is empty for permanent keys.
type Keys struct {
	ID      string
	Secret  secret.String
	Session secret.String
}

// Scope is the region and the service that a signature is valid for.
type Scope struct {
	Region, Service string
}

// S3 is the service of buckets. Its signatures differ in two points: paths are
// escaped once, and the hash of the body is a header.
const S3 = "s3"

// HeaderHash is the header with the hash of the body, which S3 requires.
const HeaderHash = "X-Amz-Content-Sha256"

// Sign signs a request whose body has the given SHA-256, in hex. It replaces the
// headers of an earlier signature.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func Sign(req *http.Request, k Keys, to Scope, bodyHash string, now time.Time) error {
	dropSignature(req.Header)
	if to.Service == S3 {
		req.Header[HeaderHash] = []string{bodyHash}
	}
	at := *req.URL // targets share their URLs
	at.Scheme = "" // so that the host keeps a default port, as it does on the way
	// The signer drops what it cannot read from the query.
	at.RawQuery = strings.ReplaceAll(at.RawQuery, ";", "%3B")
	if _, err := url.ParseQuery(at.RawQuery); err != nil {
		return apierr.New(apierr.Invalid, "the query contains a broken percent escape and cannot be signed")
	}
	signed := http.Request{Method: req.Method, URL: &at, Host: req.Host, Header: signedHeaders(req.Header)}
	if err := to.signer().SignHTTP(req.Context(), k.credentials(), &signed, bodyHash, to.Service, to.Region, now); err != nil {
		return fmt.Errorf("signing a request: %w", err)
	}
	maps.Copy(req.Header, signed.Header)
	if at.RawQuery != req.URL.RawQuery {
		at.Scheme = req.URL.Scheme
		req.URL = &at
	}
	return nil
}

// Link returns the address with a signature that allows anyone to GET it during
// life. Keys must be permanent.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
func Link(at url.URL, k Keys, to Scope, life time.Duration, now time.Time) (string, error) {
	values := at.Query()
	values.Set("X-Amz-Expires", strconv.FormatInt(int64(life.Seconds()), 10))
	at.RawQuery = values.Encode()
	req := &http.Request{Method: http.MethodGet, URL: &at, Header: http.Header{}}
	link, _, err := to.signer().PresignHTTP(context.Background(), k.credentials(), req, "UNSIGNED-PAYLOAD", to.Service, to.Region, now)
	if err != nil {
		return "", fmt.Errorf("signing an address: %w", err)
	}
	return link, nil
}

// signer returns a new signer. A signer remembers derived keys by the id of an access
// key alone, so one for all would sign with the right secret for whoever names the id.
func (s Scope) signer() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = s.Service == S3 })
}

func (k Keys) credentials() aws.Credentials {
	return aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret.Reveal(), SessionToken: k.Session.Reveal()}
}

// dropSignature removes the headers of a signature in any spelling: forwarded
// client headers keep theirs.
func dropSignature(h http.Header) {
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256", "Date"} {
		for other := range h {
			if strings.EqualFold(other, name) {
				delete(h, other)
			}
		}
	}
}

// signedHeaders returns the headers that a signature covers next to the host: the
// content type and AWS's own. Others may be changed on the way, as may the trace id.
func signedHeaders(h http.Header) http.Header {
	signed := make(http.Header, 4)
	for name, values := range h {
		lower := strings.ToLower(name)
		if lower == "content-type" || strings.HasPrefix(lower, "x-amz") && lower != "x-amzn-trace-id" {
			signed[name] = values
		}
	}
	return signed
}
