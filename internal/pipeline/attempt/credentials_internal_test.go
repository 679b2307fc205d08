package attempt

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

func TestCredentialsOfAnAttemptAreThoseItSends(t *testing.T) {
	sent := func(key, authorization string) *attempt {
		a := &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{}}, request: new(exchange.Request)}}
		a.plan.record.Target.Key = secret.New(key)
		if authorization != "" {
			a.response.Raw = &http.Response{Request: &http.Request{Header: http.Header{"Authorization": {authorization}}}}
		}
		return a
	}
	for _, tt := range []struct {
		name    string
		attempt *attempt
		text    string
		want    bool
	}{
		{"a key", sent("a-stored-key", ""), "a-stored-key", true},
		{"a token that was fetched", sent("", "Bearer a-fetched-token"), "a-fetched-token", true},
		{"the shortest secret", sent("12345678", ""), "12345678", true},
		{"less than a secret", sent("1234567", ""), "1234567", false},
		{"no credential", sent("", ""), "", false},
	} {
		if got := slices.Contains(tt.attempt.credentials(), tt.text); got != tt.want {
			t.Errorf("%s is hidden: %t, want %t", tt.name, got, tt.want)
		}
	}
	a := sent("a-stored-key", "")
	a.response.Raw = new(http.Response) // of a transport that does not name its request
	if got := a.credentials(); !slices.Contains(got, "a-stored-key") {
		t.Errorf("without a request of the response the credentials are %q", got)
	}
	a.plan.request.Received.Header = http.Header{"Authorization": {"Bearer a-stored-key"}}
	if got := a.credentials(); len(got) > 0 {
		t.Errorf("what the client sent itself is hidden: %q", got)
	}
}

func TestCompressedErrorsAreDecodedAsFarAsPossible(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte("the key is wrong"))
	w.Flush()
	for name, tt := range map[string]struct {
		raw  []byte
		want string
	}{
		"an error that is cut off": {packed.Bytes(), "the key is wrong"},
		"no gzip":                  {[]byte("plain text"), ""},
		"nothing":                  {nil, ""},
	} {
		if got := decodeAll("gzip", tt.raw); string(got) != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
