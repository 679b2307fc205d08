package bodytext_test

import (
	"strings"
	"testing"

	"modelgate/internal/format/bodytext"
)

// BenchmarkFind reads a request with 4 KB of text, and one of many nested objects,
// which are the worst to read.
func BenchmarkFind(b *testing.B) {
	words := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 30)
	const depth = 200
	for name, body := range map[string]string{
		"request": `{"model":"gpt-4o-mini","messages":[{"role":"system","content":"` + words + `"},{"role":"user","content":"` + words + `"},` +
			`{"role":"assistant","content":"` + words + `"}],"temperature":0.2,"max_tokens":300,"stream":false}`,
		"nested": strings.Repeat(`{"content":{"a":"`+words+`","content":`, depth) + `"x"` + strings.Repeat(`}}`, depth),
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(body)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if found := bodytext.Find(raw, bodytext.Request); len(found.Texts) == 0 {
					b.Fatal("no text")
				}
			}
		})
	}
}
