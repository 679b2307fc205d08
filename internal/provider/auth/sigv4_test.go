package auth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

const (
	awsID      = "AKIDEXAMPLE12345678"
	awsSecret  = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	awsSession = "IQoJb3JpZ2luX2VjE//session=="
)

// verify recomputes the signature of a request as it arrived, with the signer
// of the AWS SDK, from the headers that the signature says it covers.
func verify(t *testing.T, r *http.Request, body []byte, service, region string) {
	t.Helper()
	got := r.Header.Get("Authorization")
	_, rest, _ := strings.Cut(got, "SignedHeaders=")
	names, _, _ := strings.Cut(rest, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		t.Fatalf("x-amz-date: %v", err)
	}
	again, err := http.NewRequest(r.Method, "https://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(names, ";") {
		if name != "host" {
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: awsID, SecretAccessKey: awsSecret, SessionToken: r.Header.Get("X-Amz-Security-Token")}
	if err := v4.NewSigner().SignHTTP(t.Context(), keys, again, hex.EncodeToString(sum[:]), service, region, at); err != nil {
		t.Fatal(err)
	}
	if want := again.Header.Get("Authorization"); got != want {
		t.Errorf("%s %s\n got %s\nwant %s", r.Method, r.URL.RequestURI(), got, want)
	}
}

type text string

func (s text) Open() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(s))), nil }

// What is signed is what arrives: each request goes over a connection and is
// signed again at the other end by the SDK.
func TestSignaturesAreThoseOfTheSDK(t *testing.T) {
	var arrived *http.Request
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived = r
		sent, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	for _, tt := range []struct {
		name    string
		call    provider.Call
		session string
	}{
		{"a model with a colon", provider.Call{Operation: api.Converse, Model: "anthropic.claude-3-haiku-20240307-v1:0", Body: provider.Body{Source: text(`{"a":1}`), Length: 7, Replayable: true}}, ""},
		{"a model that is an ARN", provider.Call{Operation: api.Converse, Model: "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"}, awsSession},
		{"a hostile model", provider.Call{Operation: api.Converse, Model: "a/b?x=1&y#z %41\r\né"}, ""},
		{"a passed path", provider.Call{Operation: api.Proxy, Path: "/endpoints/a%2Fb/invocations"}, awsSession},
		{"a passed path with plain odd characters", provider.Call{Operation: api.Proxy, Path: "/a:b/c;d=(e)/%41@!$"}, ""},
		{"a passed path with doubled slashes", provider.Call{Operation: api.Proxy, Path: "//a//b"}, ""},
		{"a query out of order", provider.Call{Operation: api.Proxy, Path: "/x", Query: "b=2&a=%7E&a=1&a-b=3&c&d=x+y&e=%2f"}, awsSession},
		{"headers of AWS", provider.Call{Operation: api.Proxy, Path: "/x", Header: http.Header{
			"X-Amzn-Bedrock-Trace": {"ENABLED"}, "X-Amz-Target": {"  a   b ", "c"}, "Content-Type": {"application/json; charset=utf-8"}, "X-Other": {"o"}, "X-Amzn-Trace-Id": {"t"}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := row(provider.MethodAWS, "cloud_a_")
			spec.Paths = map[api.Operation]string{api.Converse: "/model/{model}/converse"}
			target := mustTarget(t, spec, provider.Settings{CustomHost: server.URL, Options: options{
				"cloud_a_access_key_id": awsID, "cloud_a_secret_access_key": awsSecret, "cloud_a_session_token": tt.session, "cloud_a_region": "eu-west-1"}})
			tt.call.Method = http.MethodPost
			req, err := provider.NewRequest(t.Context(), target, &tt.call)
			if err != nil {
				t.Fatal(err)
			}
			if err := newWorld().signer().Sign(t.Context(), target, req, nil); err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			verify(t, arrived, sent, "bedrock", "eu-west-1")
			if covered := arrived.Header.Get("Authorization"); strings.Contains(covered, "x-amzn-trace-id") || strings.Contains(covered, "x-other") {
				t.Errorf("covers what may change on the way: %s", covered)
			}
			if got := arrived.Header.Get("X-Amz-Security-Token"); got != tt.session {
				t.Errorf("x-amz-security-token = %q, want %q", got, tt.session)
			}
		})
	}
}

func TestTheScopeOfASignatureIsTheRowsServiceAndTheRegion(t *testing.T) {
	for _, service := range []string{"bedrock", "sagemaker", "bedrock-mantle", "aws-external-anthropic"} {
		spec := row(provider.MethodAWS, "")
		spec.Auth.Service = service
		got := mustSign(t, newWorld().signer(), spec, provider.Settings{Options: options{
			"access_key_id": awsID, "secret_access_key": awsSecret, "region": "ap-southeast-2"}})
		if want := "AWS4-HMAC-SHA256 Credential=" + awsID + "/20261121/ap-southeast-2/" + service + "/aws4_request, "; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want it to begin with %q", got, want)
		}
	}
}

// Headers that a client sends must not be next to those of the signature.
func TestASignatureReplacesWhatTheClientSent(t *testing.T) {
	spec := row(provider.MethodAWS, "")
	spec.Auth.Header, spec.Auth.Scheme = "X-Api-Key", ""
	target := mustTarget(t, spec, provider.Settings{Key: key("k"), Options: options{
		"access_key_id": awsID, "secret_access_key": awsSecret, "region": "eu-west-1"}})
	req := newRequest(t, target)
	req.Header = http.Header{"authorization": {"Bearer x"}, "X-AMZ-DATE": {"20200101T000000Z"}, "x-amz-security-token": {"theirs"},
		"X-Amz-Content-Sha256": {"UNSIGNED-PAYLOAD"}, "X-Api-Key": {"k"}, "x-api-key": {"k"}}
	if err := newWorld().signer().Sign(t.Context(), target, req, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if len(req.Header) != 2 || req.Header.Get("X-Amz-Date") != "20261121T120000Z" || !strings.HasPrefix(req.Header.Get("Authorization"), "AWS4-") {
		t.Errorf("headers %v, want a date and a signature alone", req.Header)
	}
}

func TestTheSharedAddressOfATargetIsNotChanged(t *testing.T) {
	target := mustTarget(t, row(provider.MethodAWS, ""), provider.Settings{Options: options{
		"access_key_id": awsID, "secret_access_key": awsSecret, "region": "eu-west-1"}})
	req := newRequest(t, target)
	shared := &url.URL{Scheme: "https", Host: "h.example.com", Path: "/x", RawQuery: "b=1&a=2"}
	req.URL = shared
	if err := newWorld().signer().Sign(t.Context(), target, req, nil); err != nil {
		t.Fatal(err)
	}
	if shared.RawQuery != "b=1&a=2" || req.URL.RawQuery != "a=2&b=1" {
		t.Errorf("shared %q, sent %q", shared.RawQuery, req.URL.RawQuery)
	}
}

func TestAnUploadThatStreamsThroughIsNotSigned(t *testing.T) {
	target := mustTarget(t, row(provider.MethodAWS, ""), provider.Settings{Options: options{
		"access_key_id": awsID, "secret_access_key": awsSecret, "region": "eu-west-1"}})
	req := newRequest(t, target)
	req.Body = io.NopCloser(bytes.NewReader([]byte("x")))
	mustRefuse(t, newWorld().signer().Sign(t.Context(), target, req, nil), apierr.Unsupported, "")
}

func TestAQueryThatCannotBeReadIsNotSigned(t *testing.T) {
	target := mustTarget(t, row(provider.MethodAWS, ""), provider.Settings{Options: options{
		"access_key_id": awsID, "secret_access_key": awsSecret, "region": "eu-west-1"}})
	req := newRequest(t, target)
	req.URL.RawQuery = "a=%zz"
	mustRefuse(t, newWorld().signer().Sign(t.Context(), target, req, nil), apierr.Invalid, "")
}

func BenchmarkSignV4(b *testing.B) {
	target, err := provider.NewTarget(row(provider.MethodAWS, ""), provider.Settings{Options: options{
		"access_key_id": awsID, "secret_access_key": awsSecret, "session_token": awsSession, "region": "eu-west-1"}})
	if err != nil {
		b.Fatal(err)
	}
	s, body := newWorld().signer(), bytes.Repeat([]byte("x"), 4<<10)
	req, _ := http.NewRequest(http.MethodPost, "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a%3A0/converse", nil)
	req.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Sign(b.Context(), target, req, body); err != nil {
			b.Fatal(err)
		}
	}
}
