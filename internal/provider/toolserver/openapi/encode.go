package openapi

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// encode returns text with everything encoded that is not unreserved.
// https://www.rfc-editor.org/rfc/rfc3986#section-2.3
func encode(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// encodeSegment returns text as a part of a segment of a path. What could lead to another path is
// refused: servers and proxies decode segments, some of them twice, before they resolve dots and
// look for the operation.
func encodeSegment(text string) (string, error) {
	if climbs(text) {
		return "", errors.New(`must not contain the segments "." and "..", or control characters`)
	}
	if separators(text) > 0 {
		return "", errSeparator
	}
	return encode(text), nil
}

var errSeparator = errors.New(`must not contain "/" and "\", also if they are encoded`)

// separators returns how many characters of text, once it is completely decoded, separate
// segments of a path for some server.
func separators(text string) int {
	for decoded := decode(text); decoded != text; decoded = decode(text) {
		text = decoded
	}
	return strings.Count(text, "/") + strings.Count(text, `\`)
}

// decode decodes text once, and leaves what is not an encoded byte: so do many servers.
func decode(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if b, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				out.WriteByte(b[0])
				i += 2
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// climbs reports whether text contains segments of dots or control characters, also once it is
// decoded.
func climbs(text string) bool {
	for range 4 {
		if strings.ContainsFunc(text, isControl) {
			return true
		}
		for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			if s, _, _ = strings.Cut(s, ";"); s == "." || s == ".." {
				return true
			}
		}
		decoded := decode(text)
		if decoded == text {
			return false
		}
		text = decoded
	}
	return true // nobody encodes that often without a reason
}

// plainHeader returns text as a part of the value of a header.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.5
func plainHeader(text string) (string, error) {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return "", errors.New("must contain only printable ASCII characters")
		}
	}
	return strings.TrimSpace(text), nil
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// isToken reports whether text can be the name of a header.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isFixed reports whether a header is not one that arguments may set: those of the connection, of
// credentials, and of proxies that say who sends a request.
func isFixed(name string) bool {
	name = http.CanonicalHeaderKey(name)
	for _, prefix := range [...]string{"Proxy-", "Sec-", "X-Forwarded-", "Mcp-", "X-Http-Method", "X-Original-", "X-Rewrite-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"Accept-Encoding", "Api-Key", "Connection", "Content-Encoding", "Content-Length", "Cookie", "Date",
		"Expect", "Forwarded", "Host", "Keep-Alive", "Last-Event-Id", "Origin", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
		"X-Api-Key", "X-Goog-Api-Key", "X-Method-Override", "X-Real-Ip"}, name)
}

// piecesOf returns the parts of the path of an operation, whose parameters params have.
func piecesOf(path string, params []param) (pieces []piece, err error) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || climbs(path) || strings.Contains(path, "//") {
		return nil, errors.New("its path must begin with / and have no query, and no segments of dots")
	}
	used := map[string]bool{}
	for rest := path; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if text != "" {
			pieces = append(pieces, piece{text: encodeLiteral(text)})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		known := slices.ContainsFunc(params, func(p param) bool { return p.in == "path" && p.name == name })
		if !closed || !known {
			return nil, fmt.Errorf("its path names the parameter %.60q, which it does not have", name)
		}
		pieces, used[name], rest = append(pieces, piece{param: name}), true, after
	}
	for _, p := range params {
		if p.in == "path" && !used[p.name] {
			return nil, fmt.Errorf("its path does not name the parameter %.60q", p.name)
		}
	}
	return pieces, nil
}

// encodeLiteral returns text of a path as the document has it, in which it may be encoded.
func encodeLiteral(text string) string {
	plain, err := url.PathUnescape(text)
	if err != nil {
		plain = text
	}
	return (&url.URL{Path: plain, RawPath: text}).EscapedPath()
}
