package blob_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"modelgate/internal/storage/blob"
)

// scripted answers each request by the function of its number, from 1, and by
// the server behind it where there is none.
func scripted(t *testing.T, script map[int]http.HandlerFunc) (*blob.Bucket, *[]*http.Request) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("exports"); err != nil {
		t.Fatal(err)
	}
	real, seen := gofakes3.New(backend).Server(), new([]*http.Request)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = append(*seen, r)
		if f := script[len(*seen)]; f != nil {
			io.Copy(io.Discard, r.Body)
			f(w, r)
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return bucket(t, s.URL), seen
}

func respondWith(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

func TestTemporaryRefusalsOfABucketAreRetried(t *testing.T) {
	b, seen := scripted(t, map[int]http.HandlerFunc{1: respondWith(503, "<Error><Code>SlowDown</Code></Error>"), 2: respondWith(500, "")})
	if _, err := b.Put(t.Context(), "x", strings.NewReader("text")); err != nil || len(*seen) != 3 {
		t.Fatalf("Put: %v after %d requests", err, len(*seen))
	}
	if got := mustRead(t, b, "x"); string(got) != "text" {
		t.Errorf("Get: %q", got)
	}
	for _, r := range (*seen)[:3] {
		if h := r.Header.Get("X-Amz-Content-Sha256"); h != "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1" {
			t.Errorf("hash of the body: %s", h)
		}
		if a := r.Header.Get("Authorization"); !strings.Contains(a, "Credential=access/") || !strings.Contains(a, "/us-east-1/s3/aws4_request") || strings.Contains(a, "canary") {
			t.Errorf("authorization: %s", a)
		}
	}
}

// signatureOf returns the authorization that a request as it came has by the rules.
func signatureOf(t *testing.T, r *http.Request, body []byte) string {
	t.Helper()
	// Without the body: its length is not signed, since its hash is.
	plain, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		t.Fatal(err)
	}
	plain.Header.Set("X-Amz-Content-Sha256", fmt.Sprintf("%x", sha256.Sum256(body)))
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: "access", SecretAccessKey: "canary-secret-key"}
	if err := signer.SignHTTP(t.Context(), keys, plain, plain.Header.Get("X-Amz-Content-Sha256"), "s3", "us-east-1", at); err != nil {
		t.Fatal(err)
	}
	return plain.Header.Get("Authorization")
}

func TestRequestsArriveAsTheyWereSigned(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("exports"); err != nil {
		t.Fatal(err)
	}
	real, n := gofakes3.New(backend).Server(), 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		n++
		if got, want := r.Header.Get("Authorization"), signatureOf(t, r, body); got != want {
			t.Errorf("%s %s: authorization %s, want %s", r.Method, r.URL, got, want)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		real.ServeHTTP(w, r)
	}))
	defer s.Close()
	b := bucket(t, s.URL)
	for _, size := range []int{0, 10, 17 << 20} {
		if _, err := b.Put(t.Context(), "o-1/x_y.jsonl", bytes.NewReader(make([]byte, size))); err != nil {
			t.Error(err)
		}
	}
	mustRead(t, b, "o-1/x_y.jsonl")
	if err := b.Delete(t.Context(), "o-1/x_y.jsonl"); err != nil || n != 10 {
		t.Errorf("%v after %d requests, want 10", err, n)
	}
}

func TestAnUploadWhoseEndFailsIsTakenBack(t *testing.T) {
	// A success that turns into an error is one.
	b, seen := scripted(t, map[int]http.HandlerFunc{5: respondWith(200, "<Error><Code>InternalError</Code></Error>")})
	_, err := b.Put(t.Context(), "x", bytes.NewReader(make([]byte, 17<<20)))
	f, ok := errors.AsType[*blob.Error](err)
	if !ok || f.Reason != "the bucket rejected the request: InternalError" || len(*seen) != 6 || (*seen)[5].Method != "DELETE" {
		t.Errorf("Put: %v after %d requests", err, len(*seen))
	}
	if _, err := b.Get(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get: %v", err)
	}
}

func TestAnUploadWhoseLastResponseIsLostIsComplete(t *testing.T) {
	for name, tt := range map[string]struct {
		last http.HandlerFunc // serves the request that completes the upload
		ok   bool
	}{
		"stored":         {nil, true},
		"not stored":     {respondWith(404, "<Error><Code>NoSuchUpload</Code></Error>"), false},
		"an earlier one": {respondWith(404, "<Error><Code>NoSuchUpload</Code></Error>"), false},
	} {
		t.Run(name, func(t *testing.T) {
			backend := s3mem.New()
			if err := backend.CreateBucket("exports"); err != nil {
				t.Fatal(err)
			}
			real, completions := gofakes3.New(backend).Server(), 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "POST" || r.URL.Query().Get("uploadId") == "" {
					real.ServeHTTP(w, r)
					return
				}
				completions++
				switch {
				case tt.last != nil:
					tt.last(w, r)
				case completions == 1:
					real.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler) // closes the connection
				default:
					real.ServeHTTP(w, r)
				}
			}))
			defer s.Close()
			b, want := bucket(t, s.URL), pattern(17<<20)
			if name == "an earlier one" {
				if _, err := b.Put(t.Context(), "x", strings.NewReader("x")); err != nil {
					t.Fatal(err)
				}
			}
			n, err := b.Put(t.Context(), "x", bytes.NewReader(want))
			if (err == nil) != tt.ok || tt.ok && (n != int64(len(want)) || completions < 2) {
				t.Fatalf("Put = %d, %v after %d requests to complete", n, err, completions)
			}
			if n, err := b.Size(t.Context(), "x"); (err == nil && n == int64(len(want))) != tt.ok {
				t.Errorf("Size = %d, %v", n, err)
			}
		})
	}
}

func TestPartsThatWereLeftGoWithTheFile(t *testing.T) {
	s, _ := server(t)
	b := bucket(t, s.URL)
	for _, key := range []string{"x", "xy"} {
		resp, err := http.Post(s.URL+"/exports/a/b/"+key+"?uploads", "", nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	if err := b.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.URL + "/exports?uploads")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || bytes.Contains(text, []byte("<Key>a/b/x</Key>")) || !bytes.Contains(text, []byte("<Key>a/b/xy</Key>")) {
		t.Errorf("left: %s, %v", text, err)
	}
}

func TestABucketIsInTheHostOrInThePath(t *testing.T) {
	for path, want := range map[bool]string{true: "https://s3.example.com:9000/exports/a/b/x?", false: "https://exports.s3.example.com:9000/a/b/x?"} {
		o := options("https://s3.example.com:9000/")
		o.PathStyle = path
		b, err := blob.OpenBucket(o)
		if err != nil {
			t.Fatal(err)
		}
		if link, err := b.Link(t.Context(), "x", "x", time.Minute); err != nil || !strings.HasPrefix(link, want) {
			t.Errorf("%s, %v; want %s", link, err, want)
		}
	}
}
