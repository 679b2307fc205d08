// Package urlpath gives the path of a request one spelling.
//
// It guarantees that two paths that servers commonly read alike are spelled
// alike or refused, so that routing, limits and logs decide about the path that
// a provider receives. It does not clean paths: dot segments and empty segments
// are refused, never resolved. Queries are not its concern.
package urlpath

import (
	"strings"

	"modelgate/internal/base/apierr"
)

// Code is the machine word of the errors of this package.
const Code = "invalid_path"

// Canonical returns the one spelling of a path as it is in a request line,
// without its query: percent-encoded unreserved characters (RFC 3986, section
// 2.3) are decoded and everything else stays as sent. The result is its own
// canonical form.
//
// A path that servers disagree about is an error of kind Invalid: one with an
// empty segment, a dot segment in any spelling, a backslash or a control
// character (encoded or not), a fragment, a broken percent-encoding, or an
// encoding of a character that is longer than UTF-8 allows. One trailing
// slash is allowed.
func Canonical(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", invalid("must begin with a slash")
	}
	if isPlain(path) {
		return path, nil
	}
	out, err := decodeUnreserved(path)
	if err != nil {
		return "", err
	}
	if strings.Contains(out, "//") {
		return "", invalid("must not contain an empty segment; write one slash between segments")
	}
	if err := checkBytes(out); err != nil {
		return "", err
	}
	return out, checkDots(out)
}

// isPlain reports whether a path holds nothing that needs a closer look, as
// almost all do.
func isPlain(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ', c >= 0x7f, c == '%', c == '\\', c == '#', c == '?':
			return false
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		}
	}
	return true
}

// decodeUnreserved decodes the unreserved characters among the encoded ones.
func decodeUnreserved(path string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		c, ok := encoded(path[i:])
		if !ok {
			return "", invalid("must write each %% as part of a percent-encoding, such as %%25")
		}
		if isUnreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteString(path[i : i+3])
		}
		i += 2
	}
	return b.String(), nil
}

// checkBytes refuses characters that servers disagree about, encoded or not.
func checkBytes(path string) error {
	if strings.ContainsAny(path, " #?") {
		return invalid("must percent-encode spaces, # and ?")
	}
	text := Decode(path)
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c == 0x7f:
			return invalid("must not contain control characters, not even encoded")
		case c == '\\':
			return invalid("must not contain a backslash, not even encoded; separate segments with a slash")
		case c == 0xc0, c == 0xc1, i+1 < len(text) &&
			(c == 0xe0 && isBetween(text[i+1], 0x80, 0x9f) || c == 0xf0 && isBetween(text[i+1], 0x80, 0x8f)):
			return invalid("must encode characters as UTF-8 does, in its shortest form")
		}
	}
	return nil
}

// checkDots refuses dot segments.
func checkDots(path string) error {
	if HasDotSegment(path) {
		return invalid("must not contain the segments . and .., not even encoded; send the resolved path")
	}
	return nil
}

// maxDecodings is how often a path is decoded to look for dot segments: some
// servers decode a second time.
const maxDecodings = 3

// HasDotSegment reports whether a path has a segment that servers may resolve: .
// or .. between slashes or backslashes (encoded or not), also before a matrix parameter or with
// spaces after it.
func HasDotSegment(path string) bool {
	for range maxDecodings {
		next := Decode(path)
		for segment := range strings.SplitSeq(strings.ReplaceAll(next, `\`, "/"), "/") {
			segment, _, _ = strings.Cut(segment, ";")
			if segment = strings.TrimRight(segment, " "); segment == "." || segment == ".." {
				return true
			}
		}
		if next == path {
			break
		}
		path = next
	}
	return false
}

// Decode returns text with every valid percent-encoding in it decoded once. Anything
// else stays unchanged.
func Decode(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if c, ok := encoded(text[i:]); ok {
			b = append(b, c)
			i += 2
			continue
		}
		b = append(b, text[i])
	}
	return string(b)
}

// encoded returns the byte that the percent-encoding at the start of s stands for.
func encoded(s string) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, ok := digit(s[1])
	low, ok2 := digit(s[2])
	return high<<4 | low, ok && ok2
}

func digit(c byte) (byte, bool) {
	switch {
	case isBetween(c, '0', '9'):
		return c - '0', true
	case isBetween(c|0x20, 'a', 'f'):
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func isUnreserved(c byte) bool {
	return isBetween(c|0x20, 'a', 'z') || isBetween(c, '0', '9') || c == '-' || c == '.' || c == '_' || c == '~'
}

func isBetween(c, low, high byte) bool { return low <= c && c <= high }

func invalid(format string, args ...any) error {
	return apierr.New(apierr.Invalid, "the path "+format, args...).WithParam("path").WithCode(Code)
}
