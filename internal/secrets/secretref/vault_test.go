package secretref_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/provider/auth"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/upstream"
)

func inVault(address string) secretref.Reference {
	return secretref.Reference{
		Manager: secretref.Vault, Path: "secret/app/main", Key: "key",
		Auth: map[string]string{"type": "token", "address": address, "token": "hv***"}, Secrets: credentials("token", "canary-token"),
	}
}

func withAuth(ref secretref.Reference, pairs ...string) secretref.Reference {
	auth := map[string]string{}
	maps.Copy(auth, ref.Auth)
	for i := 0; i < len(pairs); i += 2 {
		auth[pairs[i]] = pairs[i+1]
	}
	ref.Auth = auth
	return ref
}

func TestVaultIsReadInBothVersions(t *testing.T) {
	m := newManager(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != "canary-token" || r.Header.Get("X-Vault-Request") != "true" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		two := `{"data":{"data":{"key":"` + canary + `","n":7},"metadata":{"version":3}},"request_id":"x"}`
		response := map[string]string{
			"/v1/secret/data/app/main":        two,
			"/v1/team/kv/data/app/main":       two,
			"/v1/team/kv/data/a%20b/c%3Fd":    two,
			"/v1/secret/app/main":             `{"data":{"key":"` + canary + `","ttl":1}}`,
			"/v1/secret/data/one":             `{"data":{"data":{"any":"` + canary + `"}}}`,
			"/prefix/v1/secret/data/app/main": two,
		}[r.URL.EscapedPath()]
		if r.Header.Get("X-Vault-Namespace") == "team-a/sub" {
			response = strings.ReplaceAll(two, canary, canary+"-of-the-namespace")
		}
		io.WriteString(w, response)
	})
	r, ref := newResolver(secretref.Options{}), inVault(m.URL)
	one, mounted, odd, whole := ref, withAuth(ref, "mount", "/team/kv/"), withAuth(ref, "mount", "team/kv"), ref
	one.Path, one.Key = "secret/one", ""
	mounted.Path, odd.Path = "app/main", "a b/c?d"
	whole.Key, whole.Format = "", "json"
	for name, tt := range map[string]struct {
		ref  secretref.Reference
		want string
	}{
		"the second":           {ref, canary},
		"the first":            {withAuth(ref, "kv_version", "1"), canary},
		"a mount of its own":   {mounted, canary},
		"a path with marks":    {odd, canary},
		"one value":            {one, canary},
		"all of it":            {whole, `{"key":"` + canary + `","n":7}`},
		"a namespace":          {withAuth(ref, "namespace", "team-a/sub"), canary + "-of-the-namespace"},
		"an address with more": {withAuth(ref, "address", m.URL+"/prefix/"), canary},
	} {
		if got := mustResolve(t, r, tt.ref); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestAVaultThatMisbehavesIsReportedWithoutItsWords(t *testing.T) {
	for name, tt := range map[string]struct {
		response    func(w http.ResponseWriter, r *http.Request)
		code        string
		respondWith string
	}{
		"forbidden":    {respondWith(403, `{"errors":["permission denied canary"]}`), "secret_manager_refused", "403"},
		"not there":    {respondWith(404, `{"errors":[]}`), "secret_not_found", "vault kv get"},
		"deleted":      {respondWith(404, `{"data":{"data":null,"metadata":{"deletion_time":"canary"}}}`), "secret_not_found", ""},
		"broken":       {respondWith(500, `{"errors":["canary"]}`), "secret_manager_failed", "500"},
		"sealed":       {respondWith(503, `{"errors":["Vault is sealed"]}`), "secret_manager_failed", "sealed"},
		"busy":         {respondWith(429, `canary`), "secret_manager_failed", "429"},
		"redirecting":  {respondWith(307, `canary`), "secret_manager_refused", "307"},
		"not JSON":     {respondWith(200, `<html>canary</html>`), "secret_manager_failed", "without a secret"},
		"of no secret": {respondWith(200, `{"data":null}`), "secret_manager_failed", "kv_version"},
		"of a text":    {respondWith(200, `{"data":{"data":"canary"}}`), "secret_manager_failed", "kv_version"},
		"huge":         {func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 3<<20)) }, "secret_manager_failed", "more than"},
		"large":        {respondWith(200, `{"data":{"data":{"key":"`+strings.Repeat("canary", 20<<10)+`"}}}`), "secret_too_large", "65536"},
		"breaking off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "canary")
		}, "secret_manager_failed", ""},
		"without a key": {respondWith(200, `{"data":{"data":{"other":"canary"}}}`), "secret_not_found", "secret_key"},
	} {
		t.Run(name, func(t *testing.T) {
			r, ref := newResolver(secretref.Options{}), inVault(newManager(t, tt.response).URL)
			mustFail(t, r, ref, tt.code)
			_, err := r.Resolve(t.Context(), ref)
			if !strings.Contains(err.Error(), tt.respondWith) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%v, want %q and no address", err, tt.respondWith)
			}
		})
	}
}

func respondWith(status int, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

func TestAManagerThatDoesNotRespondTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := secretref.New(secretref.Options{Client: discard{}})
		began := time.Now()
		mustFail(t, r, inVault("https://vault.example.com"), "secret_manager_failed")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

type discard struct{}

func (discard) Do(r *http.Request, _ bool) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAVaultOfAPrivateAddressHasToBeTrusted(t *testing.T) {
	m := newManager(t, respondWith(200, `{"data":{"data":{"key":"`+canary+`"}}}`))
	client := upstream.New(upstream.Options{})
	mustFail(t, secretref.New(secretref.Options{Client: client}), inVault(m.URL), "secret_manager_failed")
	if len(m.requests()) != 0 {
		t.Error("it was asked all the same")
	}
	err := secretref.New(secretref.Options{Client: client, CheckHost: client.CheckHost}).Check(inVault(m.URL))
	wantCode(t, err, "invalid_request")
	if !strings.Contains(err.Error(), "upstream.trusted_hosts") {
		t.Errorf("%v does not say what to do", err)
	}
}

func TestAVaultMayHaveAnAuthorityOfItsOwn(t *testing.T) {
	m := new(manager)
	m.Server = httptest.NewTLSServer(m.handler(respondWith(200, `{"data":{"data":{"key":"`+canary+`"}}}`)))
	defer m.Close()
	clients := 0
	r := newResolver(secretref.Options{ClientWith: func(roots *x509.CertPool) auth.Doer {
		clients++
		return upstream.New(upstream.Options{TrustLoopback: true, RootCAs: roots})
	}})
	ref := inVault(m.URL)
	mustFail(t, r, ref, "secret_manager_failed")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}))
	for range 2 {
		if got := mustResolve(t, r, withAuth(ref, "ca_cert", ca)); got != canary {
			t.Errorf("%q", got)
		}
	}
	if clients != 1 {
		t.Errorf("%d clients for one authority", clients)
	}
	mustFail(t, r, withAuth(ref, "ca_cert", "canary"), "invalid_request")
}

// logins is a Vault whose tokens come from logging in.
type logins struct {
	mu    sync.Mutex
	valid string
	n     int
	lease int
	wait  chan struct{} // held up by it, unless nil
}

func (l *logins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/login") {
		l.logIn(w, r)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Header.Get("X-Vault-Token") != l.valid {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	io.WriteString(w, `{"data":{"data":{"key":"`+canary+`"}}}`)
}

func (l *logins) logIn(w http.ResponseWriter, r *http.Request) {
	var given map[string]string
	if json.NewDecoder(r.Body).Decode(&given) != nil || r.Method != http.MethodPost ||
		given["secret_id"] != "canary-secret-id" && given["jwt"] != "canary-jwt" || given["role_id"]+given["role"] != "gateway" {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"errors":["invalid canary-secret-id"]}`)
		return
	}
	if l.wait != nil {
		<-l.wait
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.valid = "canary-token-" + string(rune('a'+l.n))
	json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": l.valid, "lease_duration": l.lease}})
}

func (l *logins) revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.valid = "another"
}

func byRole(address string) secretref.Reference {
	ref := inVault(address)
	ref.Auth = map[string]string{"type": "approle", "address": address, "role_id": "gateway", "secret_id": "ca***"}
	ref.Secrets = credentials("secret_id", "canary-secret-id")
	return ref
}

func TestATokenIsRenewedBeforeItEndsAndWhenItIsRefused(t *testing.T) {
	vault := &logins{lease: 100}
	m := newManager(t, vault.ServeHTTP)
	now := time.Now()
	r, ref := newResolver(secretref.Options{Now: func() time.Time { return now }}), byRole(m.URL)
	for _, step := range []struct {
		name   string
		after  time.Duration
		revoke bool
		logins int
	}{
		{"at first", 0, false, 1}, {"while it lasts", 79 * time.Second, false, 1}, {"shortly before its end", time.Second, false, 2},
		{"after it was revoked", 0, true, 3}, {"then", 0, false, 3},
	} {
		now = now.Add(step.after)
		if step.revoke {
			vault.revoke()
		}
		if got := mustResolve(t, r, ref); got != canary || vault.n != step.logins {
			t.Errorf("%s: %q after %d logins, want %d", step.name, got, vault.n, step.logins)
		}
	}
	if asked := m.requests(); asked[0] != "POST /v1/auth/approle/login" {
		t.Errorf("asked %v", asked)
	}
	mustResolve(t, r, withAuth(ref, "auth_mount", "team/roles"))
	if !slices.Contains(m.requests(), "POST /v1/auth/team/roles/login") {
		t.Errorf("asked %v", m.requests())
	}
	wrong := ref
	wrong.Secrets = credentials("secret_id", "canary-of-another")
	mustFail(t, r, wrong, "secret_manager_refused")
}

func TestManyWhoWaitForATokenLogInOnce(t *testing.T) {
	vault := &logins{lease: 100, wait: make(chan struct{})}
	r, ref := newResolver(secretref.Options{}), byRole(newManager(t, vault.ServeHTTP).URL)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := r.Resolve(t.Context(), ref); err != nil {
				t.Error(err)
			}
		})
	}
	close(vault.wait)
	all.Wait()
	if vault.n != 1 {
		t.Errorf("%d logins", vault.n)
	}
}

func TestTheClustersIdentityIsShownToListedVaultsAlone(t *testing.T) {
	vault := &logins{lease: 100}
	m := newManager(t, vault.ServeHTTP)
	read := func(name string) ([]byte, error) {
		if name != "/var/run/secrets/kubernetes.io/serviceaccount/token" {
			return nil, os.ErrNotExist
		}
		return []byte("canary-jwt\n"), nil
	}
	ref := byRole(m.URL)
	ref.Auth, ref.Secrets = map[string]string{"type": "kubernetes", "address": m.URL, "role": "gateway"}, nil
	for _, o := range []secretref.Options{
		{ReadFile: read}, {ReadFile: read, OwnIdentity: true}, {ReadFile: read, Vaults: []string{"https://vault.example.com"}},
	} {
		mustFail(t, newResolver(o), ref, "secret_not_allowed")
	}
	if len(m.requests()) != 0 {
		t.Errorf("asked %v", m.requests())
	}
	if got := mustResolve(t, newResolver(secretref.Options{ReadFile: read, Vaults: []string{m.URL + "/"}}), ref); got != canary {
		t.Errorf("%q", got)
	}
	none := func(string) ([]byte, error) { return nil, os.ErrNotExist }
	mustFail(t, newResolver(secretref.Options{ReadFile: none, Vaults: []string{m.URL}}), ref, "secret_manager_failed")
}

func TestAReferenceToAVaultIsChecked(t *testing.T) {
	ref := inVault("https://vault.example.com")
	path := func(p string) secretref.Reference { r := ref; r.Path = p; return r }
	bare := func(pairs ...string) secretref.Reference {
		r := ref
		r.Auth, r.Secrets = nil, nil
		return withAuth(r, pairs...)
	}
	for param, list := range map[string][]secretref.Reference{
		"":                       {ref, path("/secret/app/"), withAuth(path("app"), "mount", "kv")},
		"secret_path":            {path("app"), path("/app/"), path("secret/../sys/x"), path("secret//app"), path("secret/./app"), path("secret/a\nb"), path("")},
		"auth_config.mount":      {withAuth(ref, "mount", "../sys")},
		"auth_config.auth_mount": {withAuth(ref, "auth_mount", "a//b")},
		"auth_config.kv_version": {withAuth(ref, "kv_version", "3")},
		"auth_config.namespace":  {withAuth(ref, "namespace", "a\r\nX: y")},
		"auth_config.type":       {withAuth(ref, "type", "userpass"), withAuth(ref, "type", "")},
		"auth_config.token":      {bare("type", "token", "address", "https://v")},
		"auth_config.address":    {bare("type", "token"), bare("type", "kubernetes", "address", "https://v", "role", "r")},
		"auth_config.role_id":    {bare("type", "approle", "address", "https://v")},
		"auth_config.secret_id":  {bare("type", "approle", "address", "https://v", "role_id", "r")},
		"auth_config.role":       {bare("type", "kubernetes", "address", "https://v")},
		"auth_config.ca_cert":    {withAuth(ref, "ca_cert", "x")},
	} {
		for _, r := range list {
			wantParam(t, secretref.New(secretref.Options{}).Check(r), param, r)
		}
	}
}

func TestACallerWhoLeavesEndsTheWait(t *testing.T) {
	vault := &logins{lease: 100, wait: make(chan struct{})}
	m := newManager(t, vault.ServeHTTP)
	defer close(vault.wait)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newResolver(secretref.Options{}).Resolve(ctx, byRole(m.URL))
	wantCode(t, err, "secret_manager_failed")
}
