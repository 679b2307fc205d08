package dialect_test

import (
	"runtime"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// A provider decides how many pieces a signature comes in.
func TestSignatureOfManyPiecesTakesMemoryInLineWithItsLength(t *testing.T) {
	const pieces = 20_000
	var a dialect.Assembler
	a.Add(&llm.Event{Kind: llm.EventPartStart, Opened: llm.Thinking{}})
	piece := llm.Event{Kind: llm.EventDelta, Signature: llm.Signature{Vendor: llm.Anthropic, Value: "abcdefgh"}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range pieces {
		a.Add(&piece)
	}
	res, _, _ := a.Response()
	runtime.ReadMemStats(&after)
	got := res.Choices[0].Parts[0].(llm.Thinking).Signature
	if len(got.Value) != pieces*len(piece.Signature.Value) || got.Vendor != piece.Signature.Vendor {
		t.Errorf("signature of %s has %d bytes, want %d of %s", got.Vendor, len(got.Value), pieces*len(piece.Signature.Value), piece.Signature.Vendor)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 64*uint64(len(got.Value)) {
		t.Errorf("%d bytes were allocated for a signature of %d", bytes, len(got.Value))
	}
}

func TestDeltaBelongsToTheNewestPartOfItsNumber(t *testing.T) {
	var a dialect.Assembler
	for _, text := range []string{"first", "second"} {
		a.Add(&llm.Event{Kind: llm.EventPartStart, Part: 3, Opened: llm.Text{Text: text}})
	}
	a.Add(&llm.Event{Kind: llm.EventPartStart, Part: 4, Opened: llm.Text{Text: "other"}})
	a.Add(&llm.Event{Kind: llm.EventDelta, Part: 3, Text: "+"})
	a.Add(&llm.Event{Kind: llm.EventDelta, Part: 5, Text: "lost"})
	res, _, _ := a.Response()
	var got []string
	for _, p := range res.Choices[0].Parts {
		got = append(got, p.(llm.Text).Text)
	}
	if want := []string{"first", "second+", "other"}; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("texts = %q, want %q", got, want)
	}
}

// BenchmarkAssemblingManyParts has a delta for each of many parts; the time for a
// part must not depend on their number.
func BenchmarkAssemblingManyParts(b *testing.B) {
	var a dialect.Assembler
	for i := range b.N {
		a.Add(&llm.Event{Kind: llm.EventPartStart, Part: i, Opened: llm.Text{}})
		a.Add(&llm.Event{Kind: llm.EventDelta, Part: 0, Text: "x"})
	}
}
