package upstream

import (
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/apierr"
)

// CopyResponseHeader copies what of a provider's response header reaches the
// client: all but the hop-by-hop fields, those that Connection names, the
// gateway's own family, which only the gateway may say, and what steers the proxy
// in front of the gateway or is about the whole origin. With unified, the
// provider's cookies are dropped as well: they belong to another origin than
// the one that the client speaks to, and a unified route is the gateway's own.
// Content-Length and Content-Encoding are copied: whoever changes the body or
// undoes its compression removes them.
//
// A field of src replaces the one of dst. The slices are shared and clipped, so
// that appending to dst leaves src as it is; neither may be changed in place.
func CopyResponseHeader(dst, src http.Header, unified bool) {
	named := src["Connection"]
	for name, values := range src {
		key := http.CanonicalHeaderKey(name)
		if hopByHop(key) || ownFamily(key) || steers(key) || unified && key == "Set-Cookie" || namedBy(named, key) {
			continue
		}
		dst[name] = values[:len(values):len(values)]
	}
}

// CopyRequestHeader copies what of a client's request header passes through to
// a provider: all but
//   - the hop-by-hop fields and those that Connection names;
//   - Host and Content-Length, which belong to the request that is sent, and
//     Expect, since the gateway has answered it;
//   - the gateway's own family;
//   - credentials, because the client's are for the gateway and the provider's
//     are set by its authentication;
//   - what cloud metadata services ask for, so that no request looks like one
//     of the machine itself;
//   - Forwarded, X-Forwarded-* and their like. They tell the provider the
//     addresses of the client and of the networks before the gateway, which is
//     no business of its, and a client could set them to be taken for another.
//
// Accept-Encoding passes: whoever has to read the answer removes it. The slices
// are shared as with [CopyResponseHeader].
func CopyRequestHeader(dst, src http.Header) {
	named := src["Connection"]
	for name, values := range src {
		key := http.CanonicalHeaderKey(name)
		if hopByHop(key) || ownFamily(key) || notForwarded(key) || namedBy(named, key) {
			continue
		}
		dst[name] = values[:len(values):len(values)]
	}
}

// DropFamilies deletes from h every field whose name begins with one of the
// prefixes, in any case: the further families of compat.header_prefixes.
func DropFamilies(h http.Header, prefixes []string) {
	for _, p := range prefixes {
		for name := range h {
			if p != "" && hasPrefixFold(name, p) {
				delete(h, name)
			}
		}
	}
}

// Forward copies the fields of names from src to dst, byte for byte, in the
// spelling that names has them, over what dst has under any spelling. Names
// match in any case; one that src lacks is skipped. (User-Agent keeps its
// usual spelling, since net/http would send its own beside another.) The error,
// an *apierr.Error, names a field that may not be forwarded; dst is then
// unchanged.
func Forward(dst, src http.Header, names []string) error {
	for _, name := range names {
		if err := forwardable(strings.TrimSpace(name)); err != nil {
			return err
		}
	}
	for _, name := range names {
		name = strings.TrimSpace(name)
		if values, ok := lookup(src, name); ok {
			Replace(dst, name, values)
		}
	}
	return nil
}

func forwardable(name string) error {
	if !isToken(name) {
		return apierr.New(apierr.Invalid, "%q is not a header name; give names separated by commas", name).WithParam(api.HeaderForwardHeaders)
	}
	key := http.CanonicalHeaderKey(name)
	if hopByHop(key) || ownFamily(key) || metadataField(key) || key == "Host" || key == "Content-Length" {
		return apierr.New(apierr.Invalid, "the header %q cannot be forwarded; take it off the list", name).WithParam(api.HeaderForwardHeaders)
	}
	return nil
}

func lookup(h http.Header, name string) ([]string, bool) {
	if values, ok := h[http.CanonicalHeaderKey(name)]; ok {
		return values, true
	}
	for k, values := range h {
		if strings.EqualFold(k, name) {
			return values, true
		}
	}
	return nil, false
}

// Replace sets a field of dst in the spelling of name, instead of what dst
// has under any spelling. The slice is shared and clipped.
func Replace(dst http.Header, name string, values []string) {
	if strings.EqualFold(name, "User-Agent") {
		name = "User-Agent"
	}
	for k := range dst {
		if len(k) == len(name) && k != name && strings.EqualFold(k, name) {
			delete(dst, k)
		}
	}
	dst[name] = values[:len(values):len(values)]
}

// hopByHop reports the fields that belong to one connection. RFC 9110, section
// 7.6.1, and Proxy-Connection, which old clients send.
func hopByHop(key string) bool {
	switch key {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

func ownFamily(key string) bool { return strings.HasPrefix(key, api.HeaderPrefix) }

// steers reports the fields of a response by which a provider would command the
// proxy in front of the gateway, such as to send one of its files, or change what
// clients do with everything else at the gateway's address.
func steers(key string) bool {
	switch key {
	case "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url", "Alt-Svc", "Strict-Transport-Security", "Clear-Site-Data", "Service-Worker-Allowed":
		return true
	}
	return strings.HasPrefix(key, "X-Accel-") && key != api.HeaderAccelBuffers
}

// notForwarded reports the fields of a client's request that do not pass through.
func notForwarded(key string) bool {
	switch key {
	case "Host", "Content-Length", "Expect":
		return true
	}
	return credential(key) || metadataField(key) || forwarded(key)
}

func credential(key string) bool {
	switch key {
	case "Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token", "Private-Token",
		"X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "Xi-Api-Key", "X-Access-Token",
		"X-Goog-Iam-Authorization-Token":
		return true
	}
	return false
}

func metadataField(key string) bool {
	switch key {
	case "Metadata-Flavor", "X-Aws-Ec2-Metadata-Token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds",
		"X-Google-Metadata-Request":
		return true
	}
	return false
}

func forwarded(key string) bool {
	switch key {
	case "Forwarded", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip":
		return true
	}
	return strings.HasPrefix(key, "X-Forwarded-")
}

// namedBy reports whether one of the Connection fields lists key.
func namedBy(connection []string, key string) bool {
	for _, line := range connection {
		for line != "" {
			var token string
			token, line, _ = strings.Cut(line, ",")
			if strings.EqualFold(strings.TrimSpace(token), key) {
				return true
			}
		}
	}
	return false
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isFieldValue reports whether s may be in a header: no control character
// but the tab. RFC 9110, section 5.5.
func isFieldValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
