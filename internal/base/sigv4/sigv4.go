// Package sigv4 signs requests to AWS and to other servers that accept its
// signatures.
//
// It sends nothing, reads no clock and stores nothing. It does not fetch keys;
// see provider/auth.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

const (
	amzDate   = "20060102T150405Z"
	algorithm = "AWS4-HMAC-SHA256"
)

// Sign signs a request whose body has the given SHA-256, in hex. It replaces the
// headers of an earlier signature.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func Sign(req *http.Request, k Keys, to Scope, bodyHash string, now time.Time) error {
	stamp := now.UTC().Format(amzDate)
	dropSignature(req.Header)
	req.Header["X-Amz-Date"] = []string{stamp}
	if !k.Session.Empty() {
		req.Header["X-Amz-Security-Token"] = []string{k.Session.Reveal()}
	}
	if to.Service == S3 {
		req.Header["X-Amz-Content-Sha256"] = []string{bodyHash}
	}
	query, err := canonicalQuery(req.URL.RawQuery)
	if err != nil {
		return err
	}
	if query != req.URL.RawQuery {
		own := *req.URL // targets share their URLs
		own.RawQuery = query
		req.URL = &own
	}
	names, headers := canonicalHeaders(req)
	canonical := strings.Join([]string{req.Method, canonicalPath(req.URL, to), query, headers, names, bodyHash}, "\n")
	reach := to.on(stamp)
	req.Header["Authorization"] = []string{algorithm + " Credential=" + k.ID + "/" + reach +
		", SignedHeaders=" + names + ", Signature=" + k.seal(to, stamp, reach, canonical)}
	return nil
}

// Link returns the address with a signature that allows anyone to GET it during
// life. Keys must be permanent.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
func Link(at url.URL, k Keys, to Scope, life time.Duration, now time.Time) (string, error) {
	stamp := now.UTC().Format(amzDate)
	reach := to.on(stamp)
	values := at.Query()
	values.Set("X-Amz-Algorithm", algorithm)
	values.Set("X-Amz-Credential", k.ID+"/"+reach)
	values.Set("X-Amz-Date", stamp)
	values.Set("X-Amz-Expires", strconv.FormatInt(int64(life.Seconds()), 10))
	values.Set("X-Amz-SignedHeaders", "host")
	query, err := canonicalQuery(values.Encode())
	if err != nil {
		return "", err
	}
	canonical := strings.Join([]string{http.MethodGet, canonicalPath(&at, to), query, "host:" + at.Host + "\n", "host", "UNSIGNED-PAYLOAD"}, "\n")
	at.RawQuery = query + "&X-Amz-Signature=" + k.seal(to, stamp, reach, canonical)
	return at.String(), nil
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

// on returns the scope at the time of a stamp.
func (s Scope) on(stamp string) string {
	return stamp[:8] + "/" + s.Region + "/" + s.Service + "/aws4_request"
}

// seal returns the signature of a canonical request.
func (k Keys) seal(to Scope, stamp, reach, canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	text := algorithm + "\n" + stamp + "\n" + reach + "\n" + hex.EncodeToString(sum[:])
	seal := []byte("AWS4" + k.Secret.Reveal())
	for _, part := range []string{stamp[:8], to.Region, to.Service, "aws4_request", text} {
		seal = mac(seal, part)
	}
	return hex.EncodeToString(seal)
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonicalPath returns the path of u as it is signed: as sent and, except for
// S3, escaped again.
func canonicalPath(u *url.URL, to Scope) string {
	if to.Service == S3 {
		return SentPath(u)
	}
	return escape(SentPath(u), true)
}

// SentPath returns the path of u as it is sent.
func SentPath(u *url.URL) string {
	path := u.EscapedPath()
	if u.Opaque != "" {
		path = u.Opaque
		if rest, ok := strings.CutPrefix(path, "//"); ok { // with its host
			_, path, _ = strings.Cut(rest, "/")
			path = "/" + path
		}
	}
	if path == "" {
		return "/"
	}
	return path
}

// canonicalQuery returns the parameters sorted and in canonical escaping. A
// plus sign means a space.
func canonicalQuery(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	var pairs []string
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		n, err := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		if err != nil || err2 != nil {
			return "", apierr.New(apierr.Invalid, "the query contains a broken percent escape and cannot be signed")
		}
		// A byte below all others sorts a name before longer names with that
		// prefix.
		pairs = append(pairs, escape(n, false)+"\x00"+escape(v, false))
	}
	slices.Sort(pairs)
	return strings.ReplaceAll(strings.Join(pairs, "&"), "\x00", "="), nil
}

// canonicalHeaders returns the names and lines of the signed headers: the host,
// the content type and AWS's own. Others may be changed on the way, as may the
// trace id.
func canonicalHeaders(req *http.Request) (names, lines string) {
	values := map[string]string{"host": req.Host}
	if req.Host == "" {
		values["host"] = req.URL.Host
	}
	for name, v := range req.Header {
		lower := strings.ToLower(name)
		if lower == "content-type" || strings.HasPrefix(lower, "x-amz") && lower != "x-amzn-trace-id" {
			trimmed := make([]string, len(v))
			for i := range v {
				trimmed[i] = strings.Join(strings.Fields(v[i]), " ")
			}
			values[lower] = strings.Join(trimmed, ",")
		}
	}
	list := make([]string, 0, len(values))
	for name := range values {
		list = append(list, name)
	}
	slices.Sort(list)
	var b strings.Builder
	for _, name := range list {
		b.WriteString(name + ":" + values[name] + "\n")
	}
	return strings.Join(list, ";"), b.String()
}

// escape escapes everything except unreserved characters (RFC 3986, 2.3), and
// the slashes of a path.
func escape(text string, path bool) string {
	const hexits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~", c) >= 0 || path && c == '/' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexits[c>>4])
		b.WriteByte(hexits[c&15])
	}
	return b.String()
}
