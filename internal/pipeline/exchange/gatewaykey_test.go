package exchange_test

import (
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline/exchange"
)

// A long key is found inside of other text; a short one may be an ordinary word and
// counts only by itself.
func TestAHeaderThatHoldsTheKeyIsKnown(t *testing.T) {
	const long, short = "0123456789abcdef", "0123456789abcde" // 16 and 15 bytes
	for _, tt := range []struct {
		name, key, value string
		want             bool
	}{
		{"a long key", long, long, true},
		{"a long key inside of text", long, "x" + long + "y", true},
		{"a part of a long key", long, long[:15], false},
		{"a short key", short, short, true},
		{"a short key with spaces around it", short, " " + short + " ", true},
		{"a short key behind a scheme", short, "Bearer " + short, true},
		{"a short key inside of a word", short, "x" + short, false},
		{"a short key before other text", short, short + " x", false},
		{"no key", "", "", false},
		{"no key behind a scheme", "", "Bearer ", false},
		{"something else", long, "Bearer other", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := exchange.Received{Key: secret.New(tt.key)}
			if got := r.HoldsKey([]string{"first", tt.value}); got != tt.want {
				t.Errorf("HoldsKey(%q) with the key %q = %t, want %t", tt.value, tt.key, got, tt.want)
			}
		})
	}
}
