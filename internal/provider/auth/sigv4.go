package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/secret"
)

// awsKeys sign requests. Session is empty for keys that don't end.
type awsKeys struct {
	id      string
	secret  secret.String
	session secret.String
}

// scope is what a signature is good for.
type scope struct {
	region, service string
}

const (
	amzDate   = "20060102T150405Z"
	algorithm = "AWS4-HMAC-SHA256"
)

// signV4 signs a request whose body has the given hash.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func signV4(req *http.Request, k awsKeys, to scope, bodyHash string, now time.Time) error {
	stamp := now.UTC().Format(amzDate)
	drop(req.Header, "Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256", "Date")
	req.Header["X-Amz-Date"] = []string{stamp}
	if !k.session.Empty() {
		req.Header["X-Amz-Security-Token"] = []string{k.session.Reveal()}
	}
	query, err := canonicalQuery(req.URL.RawQuery)
	if err != nil {
		return err
	}
	if query != req.URL.RawQuery {
		own := *req.URL // targets share their addresses
		own.RawQuery = query
		req.URL = &own
	}
	names, headers := canonicalHeaders(req)
	// The path is escaped as it is sent, and escaped again: all services
	// but S3 want that.
	canonical := strings.Join([]string{req.Method, escapeBytes(sentPath(req.URL)), query, headers, names, bodyHash}, "\n")
	reach := stamp[:8] + "/" + to.region + "/" + to.service + "/aws4_request"
	sum := sha256.Sum256([]byte(canonical))
	text := algorithm + "\n" + stamp + "\n" + reach + "\n" + hex.EncodeToString(sum[:])
	seal := []byte("AWS4" + k.secret.Reveal())
	for _, part := range []string{stamp[:8], to.region, to.service, "aws4_request", text} {
		seal = mac(seal, part)
	}
	req.Header["Authorization"] = []string{algorithm + " Credential=" + k.id + "/" + reach +
		", SignedHeaders=" + names + ", Signature=" + hex.EncodeToString(seal)}
	return nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// sentPath is the path of u as it goes over the wire.
func sentPath(u *url.URL) string {
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

// canonicalQuery returns the parameters sorted and escaped in the one way that
// signatures are made of. A plus sign stands for a space.
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
			return "", apierr.New(apierr.Invalid, "the query holds a broken percent escape and can't be signed")
		}
		// A byte below all others keeps a name before those it begins.
		pairs = append(pairs, escapeQuery(n)+"\x00"+escapeQuery(v))
	}
	slices.Sort(pairs)
	return strings.ReplaceAll(strings.Join(pairs, "&"), "\x00", "="), nil
}

// canonicalHeaders returns the names of the signed headers and their lines:
// the host, the content type and what belongs to AWS. Others may be changed on
// the way, as may the trace id.
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

func escapeBytes(path string) string { return escape(path, true) }
func escapeQuery(text string) string { return escape(text, false) }

// escape escapes all but the unreserved characters (RFC 3986, 2.3).
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

// contents returns what req sends: a signature covers it.
func contents(req *http.Request, body []byte) (hash [sha256.Size]byte, length int64, err error) {
	if body != nil || req.Body == nil || req.Body == http.NoBody {
		return sha256.Sum256(body), int64(len(body)), nil
	}
	if req.GetBody == nil {
		return hash, 0, apierr.New(apierr.Unsupported, "this provider's requests are signed over the whole body, and this one is streamed through; send it on a unified route or in a smaller body")
	}
	r, err := req.GetBody()
	if err != nil {
		return hash, 0, err
	}
	defer r.Close()
	h := sha256.New()
	length, err = io.Copy(h, r)
	return [sha256.Size]byte(h.Sum(nil)), length, err
}
