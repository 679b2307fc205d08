package pipeline

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"modelgate/internal/waittest"
)

func TestCredentialsAreFoundInEverySpelling(t *testing.T) {
	const key = "sk-A/b+c\"d=12345"
	for _, body := range []string{
		key, "x" + key + "y", `sk-A\/b+c\"d=12345`, `\u0073k-A\u002fb\u002Bc\u0022d=1234\u0035`, `sk-A\\/b+c\\\"d=12345`, `sk-A%2Fb%2bc%22d%3D12345`,
		"sk-A&#47;b+c&#x22;d=12345", "ssk-s%" + key, `\\u0073k-A\\u002fb+c\\"d=12345`,
	} {
		got := string(hideSpelled([]byte(body), key))
		if !strings.Contains(got, hiddenCredential) || strings.Contains(got, "12345") || strings.Contains(got, "1234\\") {
			t.Errorf("%s became %s", body, got)
		}
	}
	for _, body := range []string{"", "sk-", key[:len(key)-1], `sk-A\`, "%7", "&#", "&#x;", `\u00`, strings.ToUpper(key)} {
		if got := string(hideSpelled([]byte(body), key)); got != body {
			t.Errorf("%s became %s", body, got)
		}
	}
	for _, before := range []string{"", "a", "ab", "abc", "user:"} {
		for _, after := range []string{"", "x", "xy"} {
			text := base64.StdEncoding.EncodeToString([]byte(before + key + after))
			found := false
			for _, e := range encodings(key) {
				found = found || strings.Contains(text, e)
			}
			if !found {
				t.Errorf("%q and %q around the key in base64 hide it", before, after)
			}
		}
	}
}

// A hostile error must not take long to search: sixteen times the text takes about sixteen
// times the processor's time, and not its square, whatever other processes do.
func TestSearchesForCredentialsAreLinear(t *testing.T) {
	for _, piece := range []string{"s", `\`, "%73", "&#115;", `\u0073`, "sk-sk-"} {
		search := func(size int) time.Duration {
			body, before := []byte(strings.Repeat(piece, size/len(piece))), waittest.CPUTime(t)
			hideSpelled(body, strings.Repeat("s", 60)+"k")
			return waittest.CPUTime(t) - before
		}
		const size = maxError / 8
		short := min(search(size/16), search(size/16), search(size/16))
		// The clock may be as coarse as ten milliseconds.
		if long := search(size); long > 64*max(short, 10*time.Millisecond) {
			t.Errorf("%q: %d bytes took %s, a sixteenth of them %s", piece, size, long, short)
		}
	}
}
