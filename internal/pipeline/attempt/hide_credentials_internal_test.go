package attempt

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/testing/waittest"
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
	for _, key := range []string{key, "sk-a?~b>~c?>12"} { // in base64 with characters that differ in URLs
		for _, before := range []string{"", "a", "ab", "abc", "user:"} {
			for _, after := range []string{"", "x", "xy"} {
				text := []byte(before + key + after)
				for _, written := range []string{
					base64.StdEncoding.EncodeToString(text), base64.URLEncoding.EncodeToString(text), hex.EncodeToString(text), strings.ToUpper(hex.EncodeToString(text)),
				} {
					if !slices.ContainsFunc(encodings(key), func(e string) bool { return strings.Contains(written, e) }) {
						t.Errorf("%s hides %s with %q before and %q behind it", written, key, before, after)
					}
				}
			}
		}
	}
}

func TestEveryCredentialOfAnAttemptIsHidden(t *testing.T) {
	sent := httptest.NewRequest("POST", "/", nil)
	sent.Header.Set("Authorization", "Bearer fetched-token-1")
	a := &attempt{
		plan: plan{record: exchange.Attempt{Target: &provider.Target{Key: secret.New("stored-key-1"), Headers: map[string]secret.String{"X-Own": secret.New("header-value-1")}}},
			request: &exchange.Request{Received: exchange.Received{Header: http.Header{"X-Client": {"known-to-client-1"}}}}},
		response: exchange.Response{Raw: &http.Response{Request: sent}},
	}
	for _, key := range []string{"stored-key-1", "header-value-1", "fetched-token-1"} {
		if got := string(a.hideCredentials([]byte("about " + key + " and more"))); got != "about *** and more" {
			t.Errorf("an error about %s became %s", key, got)
		}
		for _, values := range [][]string{{"Bearer " + key}, {"a longer first value", key + " behind"}} {
			out := &exchange.Response{Header: http.Header{"X-Received": values, "X-Other": {"other value"}}}
			a.hideKeyInHeaders(out)
			if out.Header["X-Received"] != nil || out.Header["X-Other"] == nil {
				t.Errorf("the headers of a response that repeats %s are %v", key, out.Header)
			}
		}
	}
	out := &exchange.Response{Header: http.Header{"X-Received": {"known-to-client-1"}}}
	if a.hideKeyInHeaders(out); out.Header["X-Received"] == nil {
		t.Error("a header with what the client sent is removed")
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
