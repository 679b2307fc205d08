package attempt

import (
	"strings"
	"testing"
)

// Text counts as what it takes, whatever it looks like; structures count each.
func TestTranslationOfTextIsNotCountedAsStructures(t *testing.T) {
	const n = 1 << 18
	for _, tt := range []struct {
		name, body  string
		least, more int // in addition to two copies
	}{
		{"braces in text", `{"a":"` + strings.Repeat("{", n) + `"}`, 0, 2 * smallTranslation},
		{"brackets in text", `{"a":"` + strings.Repeat("[", n) + `"}`, 0, 2 * smallTranslation},
		{"commas in text", `{"a":"` + strings.Repeat(",", n) + `"}`, 0, 2 * smallTranslation},
		{"objects", `[` + strings.Repeat("{},", n) + `{}]`, n * bytesPerStructure, n*bytesPerValue + smallTranslation},
		{"arrays", `[` + strings.Repeat("[],", n) + `[]]`, n * bytesPerStructure, n*bytesPerValue + smallTranslation},
		{"members that are numbers", `{` + strings.Repeat(`"a":1,`, n) + `"a":1}`, n * bytesPerValue, smallTranslation},
		{"zeros", `[` + strings.Repeat("0,", n) + `0]`, n * bytesPerNumber, smallTranslation},
		{"nines", `[` + strings.Repeat("9,", n) + `9]`, n * bytesPerNumber, smallTranslation},
		{"negative numbers", `[` + strings.Repeat("-1,", n) + `-1]`, n * bytesPerNumber, smallTranslation},
		{"strings", `[` + strings.Repeat(`"",`, n) + `""]`, n * bytesPerValue, smallTranslation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			least := bytesPerCopy*len(tt.body) + tt.least
			most := least + tt.more
			if got := translationSize([]byte(tt.body)); got < least || got > most {
				t.Errorf("translationSize of %d bytes = %d, want %d to %d", len(tt.body), got, least, most)
			}
		})
	}
}
