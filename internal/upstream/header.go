package upstream

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
)

// CopyResponseHeader copies those of a provider's response headers that are
// sent to the client. It leaves out hop-by-hop fields and those named in
// Connection, the gateway's own headers, and headers that control a proxy in
// front of the gateway or affect all of its origin, and lets no shared cache store a
// response for other keys. With unified, the provider's
// cookies are left out too: a unified route belongs to the gateway, which is
// another origin. Content-Length and Content-Encoding are copied: code that
// changes or decompresses the body must remove them.
//
// A field of src replaces the field of dst. The slices are shared and clipped,
// so that appending to dst does not change src; neither may be changed in
// place.
func CopyResponseHeader(dst, src http.Header, unified bool) {
	named := src["Connection"]
	for name, values := range src {
		key := canonical(name)
		if hopByHop(key) || ownFamily(key) || steers(key) || unified && key == "Set-Cookie" || namedBy(named, key) {
			continue
		}
		dst[name] = values[:len(values):len(values)]
		if key == "Set-Cookie" {
			dst[name] = withoutOwnCookies(values)
		}
	}
	keepPrivate(dst)
}

// withoutOwnCookies returns a provider's cookies without those that browsers would take
// for the gateway's own, such as that of a session.
func withoutOwnCookies(cookies []string) []string {
	return slices.DeleteFunc(slices.Clone(cookies), func(c string) bool {
		name, _, _ := strings.Cut(c, "=")
		name = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(name), "__Host-"), "__Secure-")
		return strings.HasPrefix(name, api.CookiePrefix)
	})
}

// CopyRequestHeader copies those of a client's request headers that pass
// through to a provider. It leaves out
//   - hop-by-hop fields and those named in Connection;
//   - Host and Content-Length, which belong to the outgoing request, and
//     Expect, which the gateway has answered;
//   - the gateway's own headers;
//   - credentials: the client's are for the gateway, and the provider's are
//     set by its authentication;
//   - headers that cloud metadata services require, so that no request looks
//     like one of the machine itself;
//   - headers from which some servers take the path or the method instead of the
//     request line;
//   - Forwarded, X-Forwarded-* and the like: they contain the addresses of the
//     client and of networks before the gateway, which the provider must not
//     learn, and a client could set them to impersonate another.
//
// Accept-Encoding passes: code that reads the response must remove it. The
// slices are shared as in [CopyResponseHeader].
func CopyRequestHeader(dst, src http.Header) {
	named := src["Connection"]
	for name, values := range src {
		key := canonical(name)
		if hopByHop(key) || ownFamily(key) || notForwarded(key) || namedBy(named, key) {
			continue
		}
		dst[name] = values[:len(values):len(values)]
	}
}

// DropFamilies deletes from h every field whose name begins with one of the
// prefixes, in any case: those in compat.header_prefixes.
func DropFamilies(h http.Header, prefixes []string) {
	for _, p := range prefixes {
		for name := range h {
			if p != "" && hasPrefixFold(name, p) {
				delete(h, name)
			}
		}
	}
}

// Forward copies the fields in names from src to dst, byte for byte and in the
// spelling of names. They replace fields of dst in any spelling. Names are
// compared without case; fields that src lacks are skipped. User-Agent keeps
// its canonical spelling, since otherwise net/http would add its own. If a
// field may not be forwarded, Forward returns an *apierr.Error that names it
// and leaves dst unchanged.
func Forward(dst, src http.Header, names []string) error {
	for _, name := range names {
		if err := checkForwardable(strings.TrimSpace(name)); err != nil {
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

// checkForwardable returns an error for a header that may not be forwarded.
func checkForwardable(name string) error {
	if !isToken(name) {
		return apierr.New(apierr.Invalid, "%q is not a header name; list names separated by commas", name).WithParam(api.HeaderForwardHeaders)
	}
	key := canonical(name)
	if hopByHop(key) || ownFamily(key) || metadataField(key) || overrides(key) || key == "Host" || key == "Content-Length" {
		return apierr.New(apierr.Invalid, "the header %q cannot be forwarded; remove it from the list", name).WithParam(api.HeaderForwardHeaders)
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

// Replace sets a field of dst in the spelling of name and removes other
// spellings. The slice is shared and clipped.
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

// canonical returns the name of a field in canonical form, with dashes for underscores:
// servers that hand fields to programs as environment variables cannot tell them apart.
func canonical(name string) string {
	key := http.CanonicalHeaderKey(name)
	if strings.IndexByte(key, '_') < 0 {
		return key
	}
	return http.CanonicalHeaderKey(strings.ReplaceAll(key, "_", "-"))
}

// hopByHop reports whether a field belongs to one connection. RFC 9110, section
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

// steers reports whether a response field would command the proxy in front of
// the gateway, for example to send one of its files or to store the response for
// others, or affect everything else at the gateway's address, such as where
// browsers send reports about it.
func steers(key string) bool {
	switch key {
	case "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url", "Surrogate-Control", "Surrogate-Key", "Edge-Control",
		"Alt-Svc", "Strict-Transport-Security", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-Ct",
		"Clear-Site-Data", "Service-Worker-Allowed", "Accept-Ch", "Critical-Ch", "Origin-Agent-Cluster", "Set-Login",
		"Nel", "Report-To", "Reporting-Endpoints", "Set-Cookie2":
		return true
	}
	return strings.HasPrefix(key, "X-Accel-") && key != api.HeaderAccelBuffers || strings.HasPrefix(key, "X-Litespeed-") ||
		strings.HasSuffix(key, "Cdn-Cache-Control")
}

// notForwarded reports whether a field of a client's request does not pass
// through.
func notForwarded(key string) bool {
	switch key {
	case "Host", "Content-Length", "Expect":
		return true
	}
	return credential(key) || metadataField(key) || forwarded(key) || overrides(key)
}

// overrides reports whether some servers take the path or the method of a request from a
// field instead of the request line. Where both agree, the field is not needed.
func overrides(key string) bool {
	switch key {
	case "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
		return true
	}
	return false
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

// isFieldValue reports whether s is valid in a header: without control
// characters except tabs. RFC 9110, section 5.5.
func isFieldValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
