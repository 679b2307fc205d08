package sigv4_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
)

var (
	keys    = sigv4.Keys{ID: "AKIDEXAMPLE", Secret: secret.New("wJalrXUtnFEMI")}
	sdkKeys = aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI"}
)

// addresses of files in buckets, in spellings that are easily signed wrongly.
var addresses = []string{
	"https://exports.s3.eu-central-1.amazonaws.com/a/b.jsonl",
	"http://127.0.0.1:9000/exports/a%20b/c%2Bd~e.jsonl?uploads=",
	"https://s3.example.com/exports/x?partNumber=2&uploadId=a%2Fb%3D&prefix=a+b",
	"https://s3.example.com/exports/%C3%BC%2520",
}

func TestRequestsToBucketsAreSignedAsByTheSDK(t *testing.T) {
	const hash = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
	now := time.Date(2026, 11, 21, 10, 20, 30, 0, time.UTC)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	for _, address := range addresses {
		got, want := mustRequest(t, address), mustRequest(t, address)
		got.Header.Set("authorization", "of an earlier time")
		if err := sigv4.Sign(got, keys, sigv4.Scope{Region: "eu-central-1", Service: sigv4.S3}, hash, now); err != nil {
			t.Fatal(err)
		}
		want.Header.Set("X-Amz-Content-Sha256", hash)
		if err := signer.SignHTTP(t.Context(), sdkKeys, want, hash, "s3", "eu-central-1", now); err != nil {
			t.Fatal(err)
		}
		for name := range want.Header {
			if got.Header.Get(name) != want.Header.Get(name) {
				t.Errorf("%s: %s %q, want %q", address, name, got.Header.Get(name), want.Header.Get(name))
			}
		}
	}
}

func TestLinksAreSignedAsByTheSDK(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 20, 30, 0, time.UTC)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	for _, address := range addresses {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		values := at.Query()
		values.Set("response-content-disposition", `attachment; filename="log 1.jsonl"`)
		at.RawQuery = values.Encode()
		got, err := sigv4.Link(*at, keys, sigv4.Scope{Region: "eu-central-1", Service: sigv4.S3}, time.Minute, now)
		if err != nil {
			t.Fatal(err)
		}
		values.Set("X-Amz-Expires", "60")
		at.RawQuery = values.Encode()
		want, _, err := signer.PresignHTTP(t.Context(), sdkKeys, mustRequest(t, at.String()), "UNSIGNED-PAYLOAD", "s3", "eu-central-1", now)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := mustQuery(t, got), mustQuery(t, want); a.Encode() != b.Encode() || a.Get("X-Amz-Signature") == "" {
			t.Errorf("link\n%s\nwant\n%s", got, want)
		}
	}
}

func mustRequest(t *testing.T, address string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func mustQuery(t *testing.T, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}
