package logstore

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestTextsThatDifferByCaseAloneAreFoldedAlike takes [strings.EqualFold] at its
// word.
func TestTextsThatDifferByCaseAloneAreFoldedAlike(t *testing.T) {
	for _, pair := range [][2]string{
		{"Straße", "sTRAßE"}, {"ΟΔΟΣ", "οδος"}, {"ΟΔΟΣ", "οδοσ"}, {"kelvin", "\u212aELVIN"}, {"ſoft", "SOFT"},
		{"ПРИВЕТ", "привет"}, {"日本語", "日本語"}, {"Ꭰ", "ꭰ"}, {"\U00010400", "\U00010428"}, {"\xff\xfeA", "\xff\xfea"},
	} {
		if a, b := fold(nil, []byte(pair[0])), fold(nil, []byte(pair[1])); !bytes.Equal(a, b) {
			t.Errorf("%q and %q are folded to %q and %q", pair[0], pair[1], a, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.String().Draw(t, "a")
		b := rapid.SampledFrom([]func(string) string{strings.ToLower, strings.ToUpper, strings.ToTitle, func(string) string { return rapid.String().Draw(t, "b") }}).Draw(t, "change")(a)
		if got := bytes.Equal(fold(nil, []byte(a)), fold(nil, []byte(b))); got != strings.EqualFold(a, b) && utf8.ValidString(a) && utf8.ValidString(b) {
			t.Fatalf("%q and %q: folded alike %t, want %t", a, b, got, !got)
		}
	})
}

func TestScriptsThatAreTakenToHaveNoCaseHaveNone(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if folded(r) > r {
			t.Fatalf("folded(%U) = %U, want the smallest", r, folded(r))
		}
		for _, f := range []string{strings.ToLower(string(r)), strings.ToUpper(string(r))} {
			if strings.EqualFold(f, string(r)) && !bytes.Equal(fold(nil, []byte(f)), fold(nil, []byte(string(r)))) {
				t.Fatalf("%U and %q differ by case alone and are not folded alike", r, f)
			}
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	for name, part := range map[string]string{"english": "The quick brown fox jumps over the lazy dog. ", "japanese": "吾輩は猫である。名前はまだ無い。", "russian": "Все счастливые семьи похожи друг на друга. "} {
		b.Run(name, func(b *testing.B) {
			body := []byte(strings.Repeat(part, 100<<10/len(part)))
			s := search{text: fold(nil, []byte("not there"))}
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if s.in(body) {
					b.Fatal("found")
				}
			}
		})
	}
}
