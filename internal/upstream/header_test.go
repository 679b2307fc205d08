package upstream_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/upstream"
)

func TestResponseHeadersThatReachTheClient(t *testing.T) {
	src := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"12"}, "Content-Encoding": {"gzip"},
		"Set-Cookie": {"a=1", "b=2"}, "X-Ratelimit-Remaining-Tokens": {"7"}, "X-Request-Id": {"req_1"}, "Retry-After": {"2"},
		"Connection": {"keep-alive, X-Per-Hop", "x-other"}, "X-Per-Hop": {"1"}, "X-Other": {"1"},
		"Keep-Alive": {"timeout=5"}, "Transfer-Encoding": {"chunked"}, "Te": {"trailers"}, "Trailer": {"X-T"}, "Upgrade": {"h2c"},
		"Proxy-Authenticate": {"Basic"}, "Proxy-Connection": {"close"},
		"X-Gateway-Provider": {"forged"}, "X-Gateway-Cache-Status": {"HIT"}, "x-gateway-trace-id": {"forged"},
		"X-Gatewayed": {"not of the family"},
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"12"}, "Content-Encoding": {"gzip"},
		"Set-Cookie": {"a=1", "b=2"}, "X-Ratelimit-Remaining-Tokens": {"7"}, "X-Request-Id": {"req_1"}, "Retry-After": {"2"},
		"X-Gatewayed": {"not of the family"},
	}
	got := http.Header{}
	upstream.CopyResponseHeader(got, src, false)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pass-through (-want +got):\n%s", d)
	}

	delete(want, "Set-Cookie")
	got = http.Header{}
	upstream.CopyResponseHeader(got, src, true)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("unified (-want +got):\n%s", d)
	}
}

func TestRequestHeadersThatPassThrough(t *testing.T) {
	src := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"sdk/1"},
		"Idempotency-Key": {"k"}, "Openai-Beta": {"a", "b"}, "Anthropic-Version": {"2023-06-01"}, "Traceparent": {"00-1"},
		"Host": {"gateway"}, "Content-Length": {"5"}, "Expect": {"100-continue"},
		"X-Gateway-Api-Key": {"s"}, "x-gateway-config": {"{}"}, "X-GATEWAY-PROVIDER": {"p"},
		"Authorization": {"s"}, "authorization": {"s"}, "X-Api-Key": {"s"}, "Api-Key": {"s"}, "X-Goog-Api-Key": {"s"}, "Cookie": {"s"},
		"Proxy-Authorization": {"s"}, "X-Amz-Security-Token": {"s"}, "Ocp-Apim-Subscription-Key": {"s"}, "Xi-Api-Key": {"s"},
		"Forwarded": {"for=1"}, "X-Forwarded-For": {"1"}, "X-Forwarded-Proto": {"https"}, "X-Real-Ip": {"1"}, "True-Client-Ip": {"1"},
		"Metadata-Flavor": {"Google"}, "X-Aws-Ec2-Metadata-Token": {"s"}, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"1"},
		"X-Google-Metadata-Request": {"True"},
		"Connection":                {"X-Mine"}, "X-Mine": {"1"}, "Te": {"trailers"}, "Transfer-Encoding": {"chunked"}, "Upgrade": {"h2c"},
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"sdk/1"},
		"Idempotency-Key": {"k"}, "Openai-Beta": {"a", "b"}, "Anthropic-Version": {"2023-06-01"}, "Traceparent": {"00-1"},
	}
	got := http.Header{}
	upstream.CopyRequestHeader(got, src)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAppendingToACopyLeavesTheSource(t *testing.T) {
	values := make([]string, 1, 4)
	values[0] = "one"
	src := http.Header{"X-A": values}
	for _, copied := range []func(dst http.Header){
		func(dst http.Header) { upstream.CopyResponseHeader(dst, src, true) },
		func(dst http.Header) { upstream.CopyRequestHeader(dst, src) },
		func(dst http.Header) {
			if err := upstream.Forward(dst, src, []string{"X-A"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		dst := http.Header{}
		copied(dst)
		dst.Add("X-A", "two")
		if got := values[:2][1]; got != "" || len(src["X-A"]) != 1 {
			t.Errorf("the source's array holds %q after appending to the copy", got)
		}
	}
}

func TestForwardOverridesInTheListedSpelling(t *testing.T) {
	src := http.Header{
		"X-Custom-Id": {" a\tb ", "\xff\x00raw"}, "Authorization": {"Bearer mine"}, "User-Agent": {"sdk"}, "x-Raw": {"r"},
		"X-Unlisted": {"u"},
	}
	dst := http.Header{"Authorization": {"Bearer provider's"}, "X-CUSTOM-ID": {"old"}, "User-Agent": {"modelgate"}, "Accept": {"*/*"}}
	err := upstream.Forward(dst, src, []string{"x-custom-ID", " authorization ", "user-agent", "X-RAW", "x-absent"})
	want := http.Header{
		"x-custom-ID": {" a\tb ", "\xff\x00raw"}, "authorization": {"Bearer mine"}, "User-Agent": {"sdk"}, "X-RAW": {"r"}, "Accept": {"*/*"},
	}
	if d := cmp.Diff(want, dst); err != nil || d != "" {
		t.Errorf("Forward = %v (-want +got):\n%s", err, d)
	}
}

func TestForwardRefusesWhatBelongsToTheConnectionOrTheGateway(t *testing.T) {
	for _, name := range []string{
		"x-gateway-api-key", "X-GATEWAY-config", "connection", "Keep-Alive", "proxy-authorization", "proxy-connection", "TE", "trailer",
		"transfer-encoding", "upgrade", "Host", "content-length", "metadata-flavor", "x-aws-ec2-metadata-token",
		"X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "x-google-metadata-request",
		"x_gateway_api_key", "X-Gateway_Config", "proxy_authorization", "transfer_encoding", "Metadata_Flavor", "X-Original-Url", "x_rewrite_url", "X_HTTP_Method-Override", "", "a b", "a:b", "a\r\nb",
	} {
		dst := http.Header{"X-Ok": {"provider's"}}
		err := upstream.Forward(dst, http.Header{"X-Ok": {"client's"}}, []string{"x-ok", name})
		if e := apierr.From(err); err == nil || e.Kind != apierr.Invalid || e.Param != "X-Gateway-Forward-Headers" {
			t.Errorf("Forward(%q) = %v, want an invalid-request error naming the list", name, err)
		}
		if d := cmp.Diff(http.Header{"X-Ok": {"provider's"}}, dst); d != "" {
			t.Errorf("Forward(%q) changed the header (-want +got):\n%s", name, d)
		}
	}
}

func TestFurtherFamiliesAreDropped(t *testing.T) {
	h := http.Header{"X-Old-Api-Key": {"s"}, "x-old-config": {"s"}, "X-Older": {"1"}, "Accept": {"*/*"}}
	upstream.DropFamilies(h, []string{"x-old-", ""})
	if d := cmp.Diff(http.Header{"X-Older": {"1"}, "Accept": {"*/*"}}, h); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestCopyingAHeaderAllocatesNothing(t *testing.T) {
	src := http.Header{"Content-Type": {"a"}, "Connection": {"keep-alive"}, "Accept": {"b"}, "User-Agent": {"c"}, "Authorization": {"d"}}
	dst := make(http.Header, 8)
	if n := testing.AllocsPerRun(100, func() {
		clear(dst)
		upstream.CopyRequestHeader(dst, src)
		upstream.CopyResponseHeader(dst, src, true)
	}); n != 0 {
		t.Errorf("copying costs %v allocations, want 0", n)
	}
}

func BenchmarkCopyRequestHeader(b *testing.B) {
	src := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"x"},
		"X-Gateway-Api-Key": {"d"}, "X-Gateway-Provider": {"d"}, "Authorization": {"d"}, "X-Stainless-Lang": {"js"}, "Connection": {"keep-alive"},
	}
	dst := make(http.Header, 16)
	b.ReportAllocs()
	for b.Loop() {
		clear(dst)
		upstream.CopyRequestHeader(dst, src)
	}
}

// TestProvidersSetNoCookieOfTheGateway: a provider that a request passes through to shares
// the gateway's origin, and could plant a session in a browser.
func TestProvidersSetNoCookieOfTheGateway(t *testing.T) {
	dst := make(http.Header)
	upstream.CopyResponseHeader(dst, http.Header{"Set-Cookie": {
		"a=1", "mg_login=planted; Path=/", " mg_login=planted", "__Host-mg_flow_1=planted; Secure; Path=/", "__Secure-mg_x=1", "other_mg_login=2",
	}}, false)
	if got := dst["Set-Cookie"]; !slices.Equal(got, []string{"a=1", "other_mg_login=2"}) {
		t.Errorf("the cookies are %q", got)
	}
}
