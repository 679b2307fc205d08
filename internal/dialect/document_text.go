package dialect

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"modelgate/internal/model/llm"
)

// DocumentText returns the text of the document at path, for targets that have only
// documents of text. Any other document is an error.
func DocumentText(m *llm.Media, path string, to RequestTarget) (string, error) {
	switch {
	case m.Text != "":
		return m.Text, nil
	case m.Parts != nil:
		lines := make([]string, 0, len(m.Parts))
		for _, p := range m.Parts {
			text, ok := p.(llm.Text)
			if !ok {
				return "", Unsupported(path, to, "a document that is not given as text")
			}
			lines = append(lines, text.Text)
		}
		return strings.Join(lines, "\n"), nil
	case m.Data != "" && isTextual(m.Type):
		b, err := base64.StdEncoding.DecodeString(StandardBase64(m.Data))
		if err != nil || !utf8.Valid(b) {
			return "", Invalid(path, CodeValue, "must be text in UTF-8, as base64")
		}
		return string(b), nil
	}
	return "", Unsupported(path, to, "a document that is not given as text")
}

func isTextual(mime string) bool {
	return strings.HasPrefix(mime, "text/") || mime == "application/json" || mime == "application/xml"
}
