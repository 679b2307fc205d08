package jwt_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/upstream"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

var discard = slog.New(slog.DiscardHandler)

// The keys of the tests. Making one takes a while.
var (
	first  = sync.OnceValue(func() *rsa.PrivateKey { return mustKey(2048) })
	second = sync.OnceValue(func() *rsa.PrivateKey { return mustKey(2048) })
	small  = sync.OnceValue(func() *rsa.PrivateKey { return mustKey(1024) })
)

func mustKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

// values is a JSON object.
type values map[string]any

// with returns v with other values. Nil takes a name away.
func (v values) with(other values) values {
	out := maps.Clone(v)
	maps.Copy(out, other)
	maps.DeleteFunc(out, func(_ string, value any) bool { return value == nil })
	return out
}

var (
	header = values{"alg": "RS256", "kid": "one", "typ": "JWT"}
	claims = values{"organisation_id": "org", "workspace_slug": "main", "scope": "completions.write logs.view", "exp": noon.Add(time.Hour).Unix(), "sub": "ada"}
)

func encoded(v any) string {
	if text, ok := v.(string); ok {
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// sign returns a token of a header and claims, which are objects or texts.
func sign(key *rsa.PrivateKey, header, claims any) string {
	text := encoded(header) + "." + encoded(claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// public returns a key as a JSON Web Key.
func public(kid string, key *rsa.PrivateKey) values {
	b := base64.RawURLEncoding
	return values{"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256",
		"n": b.EncodeToString(key.N.Bytes()), "e": b.EncodeToString(big.NewInt(int64(key.E)).Bytes())}
}

func set(keys ...values) string {
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// organisation takes tokens of a set with the first key.
func organisation() jwt.Issuer {
	return jwt.Issuer{Organisation: "org", Set: set(public("one", first())), Workspaces: []jwt.Workspace{{ID: "w1", Slug: "main"}}}
}

// mustKeySets returns a keeper that reaches this machine, and what it logs.
func mustKeySets(t testing.TB, o upstream.Options) (*jwt.KeySetCache, *buffer) {
	t.Helper()
	return mustKeeperFor(t, o, time.Minute)
}

// mustKeeperFor returns a cache whose requests wait for a fetch as long as given,
// zero for the default.
func mustKeeperFor(t testing.TB, o upstream.Options, patience time.Duration) (*jwt.KeySetCache, *buffer) {
	t.Helper()
	o.TrustLoopback = true
	log := new(buffer)
	k := jwt.New(jwt.Options{
		Client: upstream.New(o), Logger: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return noon },
		FetchTime: patience, Patience: patience,
	})
	t.Cleanup(k.Close)
	return k, log
}

// buffer is a log.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func verify(judge *jwt.Verifier, token string, now time.Time) (*access.Identity, *apierr.Error) {
	id, err := judge.Verify(token, access.HashKey(token), now)
	return id, apierr.From(err)
}

// wantRefused wants an error with this code and word that quotes nothing.
func wantRefused(t *testing.T, name, token string, err *apierr.Error, code, word string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: the token counts", name)
		return
	}
	if err.CodeOrDefault() != code || !strings.Contains(err.Message, word) {
		t.Errorf("%s: %s %q, want %s and %q", name, err.CodeOrDefault(), err.Message, code, word)
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 && strings.Contains(err.Error(), part) {
			t.Errorf("%s: the error quotes the token: %v", name, err)
		}
	}
}

// issuerServer serves keys by HTTPS.
type issuerServer struct {
	url     string
	pool    *x509.CertPool
	asked   atomic.Int64
	respond atomic.Pointer[http.HandlerFunc]
}

func newPlace(t testing.TB, keys ...values) *issuerServer {
	t.Helper()
	p := new(issuerServer)
	p.serve(set(keys...))
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		(*p.respond.Load())(w, r)
	}))
	t.Cleanup(srv.Close)
	p.url, p.pool = srv.URL+"/keys", x509.NewCertPool()
	p.pool.AddCert(srv.Certificate())
	return p
}

func (p *issuerServer) serve(text string) {
	p.setHandler(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) })
}

func (p *issuerServer) setHandler(f http.HandlerFunc) { p.respond.Store(&f) }

// issuer returns an organisation whose keys are at p.
func (p *issuerServer) issuer() jwt.Issuer {
	i := organisation()
	i.Set, i.URL = "", p.url
	return i
}
