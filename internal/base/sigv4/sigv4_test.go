package sigv4_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
)

var (
	keys = sigv4.Keys{ID: "AKIDEXAMPLE", Secret: secret.New("wJalrXUtnFEMI")}
	now  = time.Date(2026, 11, 21, 10, 20, 30, 0, time.UTC)
)

const bodyHash = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"

// signatures are of requests and links to addresses in spellings that are easily
// signed wrongly. They were made by another implementation than the one under test.
var signatures = []struct {
	address, service, request, link string
}{
	{
		"https://exports.s3.eu-central-1.amazonaws.com/a/b.jsonl", "s3",
		"16eafef4e647c0b2868e160f198b2585803f83f31ba48b01be8b8d84eff927ff",
		"https://exports.s3.eu-central-1.amazonaws.com/a/b.jsonl?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261121%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T102030Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=0c3ec38092dcb67e09bc0597db4a039ddb79096926fae30131a9d6b0c98dd5a7",
	},
	{
		"http://127.0.0.1:9000/exports/a%20b/c%2Bd~e.jsonl?uploads=", "s3",
		"eca206cfce209af67d1a47a90cd418b3f4d13c2f2d5f7024a4029f3d7457f2ff",
		"http://127.0.0.1:9000/exports/a%20b/c%2Bd~e.jsonl?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261121%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T102030Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&uploads=&X-Amz-Signature=bf335bea3e4fa55e09f04f03a0e168a7352a47fa69da0fae259f65bf6be511b5",
	},
	{
		"https://s3.example.com/exports/x?partNumber=2&uploadId=a%2Fb%3D&prefix=a+b&a-b=1&a=2&a%20c=3", "s3",
		"abf9a8c164b2862fd4f5e8e8d8d4986df78155307c200313000adcd9c1b18b08",
		"https://s3.example.com/exports/x?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261121%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T102030Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&a=2&a%20c=3&a-b=1&partNumber=2&prefix=a%20b&uploadId=a%2Fb%3D&X-Amz-Signature=d35ff796469c4fa8cd6dae4bf6cb4ea311a486349d3c1ee6dc706936e94ddaa8",
	},
	{
		"https://s3.example.com/exports/%C3%BC%2520", "s3",
		"ae48b93a18a78661690dbd6ca5755c86a5627373f14508bc1f901d601989427b",
		"https://s3.example.com/exports/%C3%BC%2520?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261121%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T102030Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=5fa6bbf7b6351984febfce54c1f926bfa85652520be85b4ee870b4f745374c20",
	},
	{
		"https://[2001:db8::1]/x", "s3",
		"61fdbfb3d92c1c2014d5d6ae2a5f96325ac2dcafa41e9e00dfb57f55eb815ef6",
		"https://[2001:db8::1]/x?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261121%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T102030Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=aeceea67a28cb52da966ef39aa262ae58b276be82ddf28e9a3422787955b9019",
	},
	{
		"https://bedrock-runtime.eu-central-1.amazonaws.com/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse", "bedrock",
		"601c1c18dc6cdc12fa8cedfcfab17ce1068cc8973fae8a51cfc99f3f66cc3a10",
		"",
	},
	{
		"https://bedrock-runtime.eu-central-1.amazonaws.com", "bedrock",
		"0c30e3fede6cfc902ebae3519f7c31b4cb1e231dfbd1004386314717d3b1125f",
		"",
	},
	{
		"https://h.example.com:443/a%2Fb//c;d=(e)/@!$?b=2&a=1&a=0&&c", "bedrock",
		"3712f5a92bd887e8c36c369f942b3386e6790197c8ab2609c3ac418d884550a9",
		"",
	},
	{
		"https://h.example.com/x?a;b=1&d=%3B&e=%FF&f=~-_.!*'()", "bedrock",
		"4786c16957dae370688ed7fe53612fc781969c616a32e5586e41ee994ea0fde3",
		"",
	},
	{
		"http://h.example.com:8080/%E4%BD%A0", "sts",
		"dd2c459e6508ad76d7e2af90b753230b1d4609eafca9dee8ab75edfaf0e50851",
		"",
	},
}

func TestRequestsHaveTheSignaturesOfAnotherImplementation(t *testing.T) {
	for _, tt := range signatures {
		req := mustRequest(t, tt.address)
		path := req.URL.Path
		if err := sigv4.Sign(req, keys, sigv4.Scope{Region: "eu-central-1", Service: tt.service}, bodyHash, now); err != nil {
			t.Fatal(err)
		}
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/eu-central-1/" + tt.service + "/aws4_request, SignedHeaders=content-type;host;"
		if tt.service == sigv4.S3 {
			want += "x-amz-content-sha256;"
		}
		want += "x-amz-date;x-amz-foo, Signature=" + tt.request
		if got := req.Header.Get("Authorization"); got != want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", tt.service, tt.address, got, want)
		}
		if req.URL.Scheme == "" || req.URL.Host == "" || req.URL.Path != path || req.Header.Get("Accept") != "a" {
			t.Errorf("%s: the request has become %s with %v", tt.address, req.URL, req.Header)
		}
	}
}

func TestLinksHaveTheSignaturesOfAnotherImplementation(t *testing.T) {
	for _, tt := range signatures {
		if tt.link == "" {
			continue
		}
		at, err := url.Parse(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sigv4.Link(*at, keys, sigv4.Scope{Region: "eu-central-1", Service: tt.service}, time.Minute, now)
		if err != nil {
			t.Fatal(err)
		}
		if got != tt.link {
			t.Errorf("link\n%s\nwant\n%s", got, tt.link)
		}
	}
}

func TestAnEarlierSignatureIsReplaced(t *testing.T) {
	req := mustRequest(t, "https://h.example.com/x?b=2&a=1")
	req.Header["authorization"], req.Header["X-AMZ-SECURITY-TOKEN"], req.Header["date"] = []string{"old"}, []string{"old"}, []string{"old"}
	shared := req.URL
	if err := sigv4.Sign(req, keys, sigv4.Scope{Region: "eu-central-1", Service: "bedrock"}, bodyHash, now); err != nil {
		t.Fatal(err)
	}
	for name, values := range req.Header {
		if strings.Contains(strings.Join(values, ""), "old") {
			t.Errorf("%s is still there", name)
		}
	}
	if req.URL.RawQuery != "a=1&b=2" || shared.RawQuery != "b=2&a=1" {
		t.Errorf("queries %q, and %q of the address that targets share", req.URL.RawQuery, shared.RawQuery)
	}
}

// Ids of keys are not secret, so what was signed with one says nothing of the next.
func TestEachRequestIsSignedWithItsOwnSecret(t *testing.T) {
	signed := make(map[string]bool)
	for _, text := range []string{"wJalrXUtnFEMI", "another"} {
		req := mustRequest(t, "https://h.example.com/x")
		k := sigv4.Keys{ID: keys.ID, Secret: secret.New(text)}
		if err := sigv4.Sign(req, k, sigv4.Scope{Region: "eu-central-1", Service: "bedrock"}, bodyHash, now); err != nil {
			t.Fatal(err)
		}
		signed[req.Header.Get("Authorization")] = true
	}
	if len(signed) != 2 {
		t.Errorf("two secrets make %d signatures: %v", len(signed), signed)
	}
}

func TestAQueryThatCannotBeReadIsRefused(t *testing.T) {
	req := mustRequest(t, "https://h.example.com/x")
	req.URL.RawQuery = "a=%zz"
	if err := sigv4.Sign(req, keys, sigv4.Scope{Region: "eu-central-1", Service: "bedrock"}, bodyHash, now); err == nil || !strings.Contains(err.Error(), "percent escape") {
		t.Errorf("Sign() = %v, want an error of the escape", err)
	}
}

func mustRequest(t testing.TB, address string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Accept": {"a"}, "x-amz-foo": {" a ", "b  c"}, "X-Amzn-Trace-Id": {"t"}}
	return req
}

func BenchmarkSign(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		req := mustRequest(b, "https://bedrock-runtime.eu-central-1.amazonaws.com/model/a.b-v1%3A0/converse")
		if err := sigv4.Sign(req, keys, sigv4.Scope{Region: "eu-central-1", Service: "bedrock"}, bodyHash, now); err != nil {
			b.Fatal(err)
		}
	}
}
