package bodytext

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestOnlyEncodedDataIsTakenForData(t *testing.T) {
	random := make([]byte, 30_000)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(random)
	encode := base64.StdEncoding.EncodeToString
	image := encode(random)
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"base64", image, true}, {"base64 for URLs", base64.RawURLEncoding.EncodeToString(random), true}, {"a data URL", "data:image/png;base64," + image, true},
		{"zeros between", encode(append(append(bytes.Clone(random[:9000]), make([]byte, 9000)...), random[:9000]...)), true}, {"ones", encode(bytes.Repeat([]byte{0xff}, 9000)), true},
		{"text in base64", encode([]byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 300))), true},
		{"words between underscores", strings.Repeat("the_heron_stands_in_the_shallow_water_", 200), false},
		{"words between dots", strings.Repeat("the.heron.stands.in.the.shallow.water.", 200), false},
		{"words without anything between", strings.Repeat("theheronstandsintheshallowwater", 200), false},
		{"words after base64", image + strings.Repeat("theheronstandsinthewater", 30), false},
		{"words before base64", strings.Repeat("theheronstandsinthewater", 30) + image, false},
		{"words in base64", image[:8000] + strings.Repeat("the_heron_stands_in_the_water_", 20) + image[:8000], false},
		{"a word of four letters", strings.Repeat("Bomb", 2000), false}, {"capitals", strings.Repeat("THEHERONSTANDSINTHESHALLOWWATER", 200), false},
		{"a short one", image[:4000], false},
	} {
		if got := isData([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: data %t, want %t", tt.name, got, tt.want)
		}
	}
}
