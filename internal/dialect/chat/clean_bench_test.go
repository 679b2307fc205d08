package chat_test

import (
	"bytes"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
)

// A body of 4 KB without foreign members, as most are.
func BenchmarkCleanFindsNothing(b *testing.B) {
	raw := []byte(`{"model":"m","messages":[{"role":"user","content":"` + string(bytes.Repeat([]byte("an ordinary sentence, "), 190)) + `"}]}`)
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if edits, _ := (chat.Dialect{}).Clean(&doc, dialect.RequestTarget{}); edits != nil {
			b.Fatalf("edits = %v, want none", edits)
		}
	}
}
