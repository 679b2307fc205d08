package secretref_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/upstream"
)

// canary is in every secret of these tests, and in no error.
const canary = "canary-5b1f07"

func mustResolve(t *testing.T, r *secretref.Resolver, ref secretref.Reference) string {
	t.Helper()
	v, err := r.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatalf("Resolve(%s %s): %v", ref.Manager, ref.Path, err)
	}
	return v.Reveal()
}

// mustFail resolves and wants an error with a code that tells nothing secret.
func mustFail(t *testing.T, r *secretref.Resolver, ref secretref.Reference, code string) {
	t.Helper()
	v, err := r.Resolve(t.Context(), ref)
	wantCode(t, err, code)
	if !v.Empty() {
		t.Error("a value came next to an error")
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.CodeOrDefault() != code {
		t.Errorf("got %v, want the code %s", err, code)
		return
	}
	if strings.Contains(e.Error(), "canary") || strings.Contains(string(e.Body()), "canary") {
		t.Errorf("the error holds something secret: %v", e)
	}
}

func credentials(pairs ...string) map[string]secret.String {
	m := make(map[string]secret.String)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = secret.New(pairs[i+1])
	}
	return m
}

// manager is a server that answers as a test says, over a real connection.
type manager struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
}

func newManager(t *testing.T, response func(w http.ResponseWriter, r *http.Request)) *manager {
	m := new(manager)
	m.Server = httptest.NewServer(m.handler(response))
	t.Cleanup(m.Close)
	return m
}

func (m *manager) handler(response func(w http.ResponseWriter, r *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.calls = append(m.calls, r.Method+" "+r.URL.RequestURI())
		m.mu.Unlock()
		response(w, r)
	})
}

func (m *manager) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.calls...)
}

// newResolver returns a resolver that reaches this machine.
func newResolver(o secretref.Options) *secretref.Resolver {
	o.Client = upstream.New(upstream.Options{TrustLoopback: true})
	return secretref.New(o)
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// variables is an environment that a test changes.
type variables struct {
	mu     sync.Mutex
	values map[string]string
	reads  int
	wait   func() // before each response; nil does not
}

func (v *variables) lookup(name string) (string, bool) {
	v.mu.Lock()
	wait := v.wait
	v.reads++
	v.mu.Unlock()
	if wait != nil {
		wait()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	text, ok := v.values[name]
	return text, ok
}

func (v *variables) set(name, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[name] = text
}

func (v *variables) unset(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.values, name)
}

func (v *variables) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reads
}

// doer answers requests by their address, without a network.
type doer map[string]http.HandlerFunc

func (d doer) Do(req *http.Request, _ bool) (*http.Response, error) {
	f := d[req.URL.Scheme+"://"+req.URL.Host+req.URL.Path]
	if f == nil {
		return nil, errors.New("nobody is at " + req.URL.Host)
	}
	w := httptest.NewRecorder()
	f(w, req)
	return w.Result(), context.Cause(req.Context())
}

// wantParam wants an error that names a field, or none for the empty one.
func wantParam(t *testing.T, err error, param string, ref secretref.Reference) {
	t.Helper()
	e, ok := errors.AsType[*apierr.Error](err)
	if param == "" && err == nil || ok && e.Param == param {
		return
	}
	t.Errorf("Check(%v %q) = %v, want the field %q", ref.Auth, ref.Path, err, param)
}
