package dialect

import (
	"encoding/base64"
	"strings"

	"modelgate/internal/model/llm"
)

// typeAliases are MIME types that clients send and providers do not take.
var typeAliases = map[string]string{"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png",
	"application/x-pdf": "application/pdf"}

// signatures are the beginnings of files that providers take by their bytes.
// https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern
var signatures = []struct{ begin, at8, kind string }{
	{"\x89PNG\r\n\x1a\n", "", "image/png"}, {"\xff\xd8\xff", "", "image/jpeg"}, {"GIF87a", "", "image/gif"}, {"GIF89a", "", "image/gif"},
	{"RIFF", "WEBP", "image/webp"}, {"%PDF-", "", "application/pdf"},
}

// typeOf returns the MIME type of m: that of its bytes if they show one, since providers refuse
// a file whose type contradicts them, or the declared one in its usual spelling.
func typeOf(m *llm.Media) string {
	const enough = 16 // characters of base64, 12 bytes
	if len(m.Data) >= enough && (m.Kind == llm.Image || m.Kind == llm.Document) {
		var head [12]byte
		if n, _ := base64.StdEncoding.Decode(head[:], []byte(m.Data[:enough])); n == len(head) {
			for _, s := range signatures {
				if strings.HasPrefix(string(head[:]), s.begin) && strings.HasPrefix(string(head[8:]), s.at8) {
					return s.kind
				}
			}
		}
	}
	if usual, ok := typeAliases[strings.ToLower(m.Type)]; ok {
		return usual
	}
	return m.Type
}
