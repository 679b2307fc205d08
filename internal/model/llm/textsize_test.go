package llm_test

import (
	"testing"

	"modelgate/internal/model/llm"
)

func TestSizeOfTextIsThatOfEnglishWithAsManyTokens(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64
	}{
		{"", 0}, {"word word", 9}, {"Word", 5}, {"2026", 6}, {"a\nb", 4}, {"{}", 4}, {"é", 2}, {"д", 2}, {"漢", 5}, {"漢字", 9}, {"🎈", 7}, {"ա", 4},
	} {
		if got := llm.TextSize(tt.text); got != tt.want {
			t.Errorf("TextSize(%q) = %d, want %d", tt.text, got, tt.want)
		}
		if got := llm.TextSize([]byte(tt.text)); got != tt.want {
			t.Errorf("TextSize of the bytes of %q = %d, want %d", tt.text, got, tt.want)
		}
	}
}
