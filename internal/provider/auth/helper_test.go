package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/auth"
)

// noon is when every test begins.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is everything a signer sees: a clock, an environment, files, and token
// endpoints that answer by their address.
type world struct {
	mu        sync.Mutex
	now       time.Time
	env       map[string]string
	files     map[string]string
	responses map[string]func(w http.ResponseWriter, r *http.Request, form url.Values)
	listed    []string // files that tenants may read
	asked     []string
	guarded   []bool
}

func newWorld() *world {
	return &world{now: noon, env: map[string]string{}, files: map[string]string{},
		responses: map[string]func(http.ResponseWriter, *http.Request, url.Values){}}
}

func (w *world) signer() *auth.Signer {
	return auth.New(auth.Options{
		Client: w,
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Getenv: func(name string) string { return w.env[name] },
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := w.files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		},
		ReadListed: func(name string) ([]byte, error) {
			if slices.Contains(w.listed, name) {
				return []byte(w.files[name]), nil
			}
			return nil, os.ErrNotExist
		},
	})
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// handle serves what begins with address.
func (w *world) handle(address string, f func(http.ResponseWriter, *http.Request, url.Values)) {
	w.responses[address] = f
}

// handleText answers with a text.
func (w *world) handleText(address, text string) {
	w.handle(address, func(rw http.ResponseWriter, _ *http.Request, _ url.Values) { io.WriteString(rw, text) })
}

func (w *world) Do(req *http.Request, guarded bool) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	form, _ := url.ParseQuery(string(body))
	address := req.URL.Scheme + "://" + req.URL.Host + req.URL.Path
	w.mu.Lock()
	w.asked = append(w.asked, req.Method+" "+req.URL.String())
	w.guarded = append(w.guarded, guarded)
	f := w.responses[address]
	w.mu.Unlock()
	if f == nil {
		return nil, fmt.Errorf("nobody is at %s", address)
	}
	rec := &recorder{header: http.Header{}, status: 200}
	f(rec, req, form)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: rec.status, Header: rec.header, Body: io.NopCloser(strings.NewReader(rec.body.String()))}, nil
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

type options = map[string]string

// row is a row that is authenticated by a method.
func row(by provider.Method, prefix string) *provider.Spec {
	return &provider.Spec{
		ID: "test-" + string(by), BaseURL: "https://service.example.com", OptionPrefix: prefix,
		Auth: provider.Auth{Header: "Authorization", Scheme: "Bearer", Method: by, Service: "bedrock", KeyAlternatives: []string{"one_option"}},
	}
}

func mustTarget(t *testing.T, spec *provider.Spec, s provider.Settings) *provider.Target {
	t.Helper()
	target, err := provider.NewTarget(spec, s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// newRequest is what provider.NewRequest builds for the key of target.
func newRequest(t *testing.T, target *provider.Target) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://service.example.com/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key := target.Key.Reveal(); key != "" && !strings.HasPrefix(key, "{") {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return req
}

// sign signs a request of a new target and returns its Authorization header.
func sign(t *testing.T, s *auth.Signer, spec *provider.Spec, set provider.Settings) (string, error) {
	t.Helper()
	target := mustTarget(t, spec, set)
	req := newRequest(t, target)
	err := s.Sign(t.Context(), target, req, nil)
	return strings.Join(req.Header["Authorization"], "|"), err
}

func mustSign(t *testing.T, s *auth.Signer, spec *provider.Spec, set provider.Settings) string {
	t.Helper()
	got, err := sign(t, s, spec, set)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func mustRefuse(t *testing.T, err error, kind apierr.Kind, code string) {
	t.Helper()
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != kind || code != "" && e.CodeOrDefault() != code {
		t.Errorf("got %v, want kind %v and code %q", err, kind, code)
	}
}

func grant(token string, seconds int) string {
	return fmt.Sprintf(`{"access_token":%q,"expires_in":%d,"token_type":"Bearer"}`, token, seconds)
}

// rsaPair is made once: making one takes a while.
var rsaPair = sync.OnceValues(func() (*rsa.PrivateKey, string) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		panic(err)
	}
	return k, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
})

func object(t *testing.T, fields map[string]any) string {
	t.Helper()
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func key(text string) secret.String { return secret.New(text) }
