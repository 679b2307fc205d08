package guarding

import (
	"bytes"
	"fmt"
	"html"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// charsetProblem returns why readers of a body could read other text in it than UTF-8,
// by the values of its Content-Type. It returns "" if they could not.
func charsetProblem(contentTypes []string) string {
	switch len(contentTypes) {
	case 0:
		return ""
	case 1:
	default:
		return "has several content types"
	}
	if !strings.Contains(strings.ToLower(contentTypes[0]), "charset") {
		return ""
	}
	_, params, err := mime.ParseMediaType(contentTypes[0])
	charset, named := params["charset"]
	if err != nil || !named {
		return "has a charset that readers read differently"
	}
	if !readsAsUTF8(charset) {
		return fmt.Sprintf("has the charset %.40q, not UTF-8", charset)
	}
	return ""
}

// readsAsUTF8 reports whether text that is UTF-8 and that a guardrail finds harmless is harmless in a
// charset: UTF-8, or one of those that extend ASCII by single bytes.
func readsAsUTF8(charset string) bool {
	name := strings.ToLower(strings.TrimSpace(charset))
	switch name {
	case "", "utf-8", "utf8", "us-ascii", "ascii", "latin1", "latin-1":
		return true
	}
	return strings.HasPrefix(name, "iso-8859-") || strings.HasPrefix(name, "windows-125")
}

// declaration is the encoding in the declaration of a document in XML.
var declaration = regexp.MustCompile(`^\s*<\?xml[^>]*encoding\s*=\s*["']([^"']*)["']`)

// markupDecoder returns how the references in text of a media type are decoded; nil for media
// without any.
func markupDecoder(media string) func(text string) string {
	switch {
	case strings.HasSuffix(media, "xml"), media == "text/html":
		return html.UnescapeString
	case strings.HasSuffix(media, "yaml"):
		return unescapeYAML
	}
	return nil
}

// yamlEscape is an escape in a quoted text of YAML.
var yamlEscape = regexp.MustCompile(`\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})`)

func unescapeYAML(text string) string {
	return yamlEscape.ReplaceAllStringFunc(text, func(escape string) string {
		n, _ := strconv.ParseUint(escape[2:], 16, 32)
		return string(rune(n))
	})
}

// isDeclaredUTF8 reports whether a text declares no encoding of its own, or one that reads as
// UTF-8.
func isDeclaredUTF8(body []byte) bool {
	m := declaration.FindSubmatch(body[:min(len(body), peekSize)])
	return m == nil || readsAsUTF8(string(m[1]))
}

// isReadable reports whether text is UTF-8 without null characters, which may be halves of
// characters in UTF-16.
func isReadable(text []byte) bool { return utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 }
