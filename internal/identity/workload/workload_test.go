package workload_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"modelgate/internal/identity/workload"
	"modelgate/internal/testing/oidctest"
)

const (
	gitHub   = "https://token.actions.githubusercontent.com"
	audience = "https://gate.example.com"
)

// shop trusts the main branch of a repository.
func shop() workload.Trust {
	return workload.Trust{Type: workload.GitHub, Audience: audience, Claims: map[string][]string{
		"repository": {"acme/shop"}, "ref": {"refs/heads/main", "refs/tags/v*"},
	}}
}

// issued returns the claims of a token that shop accepts.
func issued(now time.Time, more map[string]any) map[string]any {
	c := map[string]any{
		"iss": gitHub, "aud": audience, "sub": "repo:acme/shop:ref:refs/heads/main", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"repository": "acme/shop", "repository_owner": "acme", "ref": "refs/heads/main", "event_name": "push",
	}
	maps.Copy(c, more)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func mustCheck(t *testing.T, w workload.Trust) *workload.Trust {
	t.Helper()
	if err := w.Check(); err != nil {
		t.Fatalf("Check(%+v) = %v", w, err)
	}
	return &w
}

func keySet(t *testing.T, p *oidctest.Provider) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.Key()}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestATrustThatWouldAcceptAnybodyIsRefused(t *testing.T) {
	rules := func(kind, claim string, values ...string) workload.Trust {
		w := workload.Trust{Type: kind, Issuer: "https://issuer.example.com", Audience: audience, Claims: map[string][]string{claim: values}}
		if kind == workload.SPIFFE {
			w.TrustDomain, w.KeysURL = "example.org", "https://bundle.example.org/keys"
		}
		return w
	}
	with := func(w workload.Trust, change func(*workload.Trust)) workload.Trust { change(&w); return w }
	for name, tt := range map[string]struct {
		trust workload.Trust
		word  string // of the error; empty for none
	}{
		"no rules":                       {with(shop(), func(w *workload.Trust) { w.Claims = nil }), "identifies"},
		"no repository or owner":         {rules(workload.GitHub, "ref", "refs/heads/main"), "identifies"},
		"the environment alone":          {rules(workload.GitHub, "environment", "production"), "identifies"},
		"a workflow that others can use": {rules(workload.GitHub, "job_workflow_ref", "acme/x/.github/workflows/a.yml@refs/heads/main"), "identifies"},
		"every value":                    {rules(workload.GitHub, "repository", "*"), "everything"},
		"every value of two segments":    {rules(workload.GitHub, "repository", "*/*"), "everything"},
		"every value of another claim":   {with(shop(), func(w *workload.Trust) { w.Claims["ref"] = []string{"*"} }), "everything"},
		"a star of any length":           {rules(workload.GitHub, "repository", "acme/**"), "one *"},
		"any owner":                      {rules(workload.GitHub, "repository", "*/shop"), "owner"},
		"a part of an owner":             {rules(workload.GitHub, "repository", "acme*/shop"), "owner"},
		"an owner alone":                 {rules(workload.GitHub, "repository", "acme"), "no repository"},
		"a part of a subject":            {rules(workload.GitHub, "sub", "repo:acme*"), "repository"},
		"any owner in the subject":       {rules(workload.GitHub, "sub", "repo:*/shop:ref:refs/heads/main"), "owner"},
		"a subject of another form":      {rules(workload.GitHub, "sub", "acme/shop"), "repo:"},
		"one good value and a bad one":   {rules(workload.GitHub, "repository", "acme/shop", "*/shop"), "owner"},
		"a part of an owner's name":      {rules(workload.GitHub, "repository_owner", "acme*"), "owner"},
		"an owner":                       {rules(workload.GitHub, "repository_owner", "acme"), ""},
		"every repository of an owner":   {rules(workload.GitHub, "repository", "acme/*"), ""},
		"a branch":                       {rules(workload.GitHub, "sub", "repo:acme/shop:ref:refs/heads/*"), ""},
		"GitHub by another type":         {with(rules(workload.OIDC, "sub", "repo:acme/shop:x"), func(w *workload.Trust) { w.Issuer = gitHub }), "github-actions"},
		"any namespace":                  {rules(workload.Kubernetes, "sub", "system:serviceaccount:*:ci"), "namespace"},
		"not a service account":          {rules(workload.Kubernetes, "sub", "system:node:a:b"), "serviceaccount"},
		"a namespace":                    {rules(workload.Kubernetes, "sub", "system:serviceaccount:ci:*"), ""},
		"a part of an e-mail address":    {rules(workload.GCP, "email", "ci@*.iam.gserviceaccount.com"), "exact"},
		"any account of AWS":             {rules(workload.AWS, "sub", "arn:aws:iam::*:role/ci"), "last segment"},
		"roles of an account":            {rules(workload.AWS, "sub", "arn:aws:iam::123456789012:role/*"), ""},
		"a part of an object id":         {with(rules(workload.Entra, "oid", "0*"), func(w *workload.Trust) { w.Issuer += "/tenant/v2.0" }), "exact"},
		"all tenants": {with(rules(workload.Entra, "oid", "0"), func(w *workload.Trust) {
			w.Issuer = "https://login.microsoftonline.com/common/v2.0"
		}), "all tenants"},
		"any subject":               {rules(workload.OIDC, "sub", "*"), "everything"},
		"a part of a subject alone": {rules(workload.OIDC, "sub", "ci-*"), "last segment"},
		"not the last segment":      {rules(workload.OIDC, "sub", "project_path:*/shop:ref:main"), "last segment"},
		"the last segment":          {rules(workload.OIDC, "sub", "project_path:acme/shop:ref_type:branch:ref:*"), ""},
		"another trust domain":      {rules(workload.SPIFFE, "sub", "spiffe://example.com/ci"), "spiffe://example.org/"},
		"a longer trust domain":     {rules(workload.SPIFFE, "sub", "spiffe://example.org.evil.com/ci"), "spiffe://example.org/"},
		"any path":                  {rules(workload.SPIFFE, "sub", "spiffe://example.org/*"), "without a *"},
		"a path":                    {rules(workload.SPIFFE, "sub", "spiffe://example.org/ns/*/sa/ci"), ""},
		"no bundle":                 {with(rules(workload.SPIFFE, "sub", "spiffe://example.org/ci"), func(w *workload.Trust) { w.KeysURL = "" }), "bundle"},
		"no audience":               {with(shop(), func(w *workload.Trust) { w.Audience = "" }), "audience"},
		"the audience as a rule":    {with(shop(), func(w *workload.Trust) { w.Claims["aud"] = []string{"a"} }), "checked anyway"},
		"no issuer":                 {with(rules(workload.OIDC, "sub", "a:b"), func(w *workload.Trust) { w.Issuer = "" }), "issuer"},
		"an issuer with a user":     {with(rules(workload.OIDC, "sub", "a:b"), func(w *workload.Trust) { w.Issuer = "https://a@b.example.com" }), "user"},
		"a shared secret as key": {with(shop(), func(w *workload.Trust) {
			w.KeySet = `{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0"}]}`
		}), "private part"},
		"a kind that is none": {rules("gitlab", "sub", "a:b"), "must be"},
		"good":                {shop(), ""},
	} {
		err := tt.trust.Check()
		if bad, ok := errors.AsType[*workload.FieldError](err); tt.word == "" && err != nil || tt.word != "" && (!ok || !strings.Contains(bad.Error(), tt.word)) {
			t.Errorf("%s: Check() = %v, want %q", name, err, tt.word)
		}
	}
}

func TestTokensAreAcceptedByEveryRuleOnly(t *testing.T) {
	p := oidctest.New(t)
	now := time.Now()
	w := shop()
	w.KeySet = keySet(t, p)
	trust, v := mustCheck(t, w), workload.NewVerifier(p)
	for name, tt := range map[string]struct {
		more map[string]any
		want string // reason; empty is accepted
	}{
		"as the rules want":           {nil, ""},
		"a tag":                       {map[string]any{"ref": "refs/tags/v1.2"}, ""},
		"a tag of two segments":       {map[string]any{"ref": "refs/tags/v1/x"}, "claims"},
		"a longer value":              {map[string]any{"repository": "acme/shop-evil"}, "claims"},
		"a value that contains it":    {map[string]any{"repository": "evil/acme/shop"}, "claims"},
		"a foreign repository":        {map[string]any{"repository": "evil/shop", "repository_owner": "evil"}, "claims"},
		"other capitals":              {map[string]any{"repository": "Acme/shop"}, "claims"},
		"no such claim":               {map[string]any{"repository": nil}, "claims"},
		"a claim that is a list":      {map[string]any{"repository": []string{"acme/shop"}}, "claims"},
		"a pull request":              {map[string]any{"event_name": "pull_request"}, "pull_request"},
		"a pull request of a fork":    {map[string]any{"event_name": "pull_request_target"}, "pull_request"},
		"a pull request by its sub":   {map[string]any{"sub": "repo:acme/shop:pull_request"}, "pull_request"},
		"an event that is not named":  {map[string]any{"event_name": nil}, "pull_request"},
		"another issuer":              {map[string]any{"iss": "https://issuer.example.com"}, "issuer"},
		"no issuer":                   {map[string]any{"iss": nil}, "issuer"},
		"another audience":            {map[string]any{"aud": "https://github.com/acme"}, "audience"},
		"a longer audience":           {map[string]any{"aud": audience + "/"}, "audience"},
		"no audience":                 {map[string]any{"aud": nil}, "audience"},
		"a list of one audience":      {map[string]any{"aud": []string{audience}}, ""},
		"several audiences":           {map[string]any{"aud": []string{audience, "https://other.example.com"}}, "audience"},
		"expired":                     {map[string]any{"exp": now.Add(-61 * time.Second).Unix(), "iat": now.Add(-time.Hour).Unix()}, "expired"},
		"expired within the skew":     {map[string]any{"exp": now.Add(-30 * time.Second).Unix(), "iat": now.Add(-time.Hour).Unix()}, ""},
		"without an end":              {map[string]any{"exp": nil}, "expired"},
		"of the future":               {map[string]any{"iat": now.Add(2 * time.Minute).Unix()}, "issued_at"},
		"of a near future":            {map[string]any{"iat": now.Add(30 * time.Second).Unix()}, ""},
		"not valid yet":               {map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}, "not_before"},
		"valid for days":              {map[string]any{"exp": now.Add(48 * time.Hour).Unix()}, "lifetime"},
		"an end that is a string":     {map[string]any{"exp": "tomorrow"}, "token"},
		"no subject":                  {map[string]any{"sub": nil}, "subject"},
		"a subject with a line break": {map[string]any{"sub": "a\nb"}, "subject"},
	} {
		subject, err := v.Verify(t.Context(), workload.Request{Trust: trust, Token: p.Signed(issued(now, tt.more)), Now: now})
		if got := workload.ReasonOf(err); err == nil && (tt.want != "" || subject == "") || err != nil && got != tt.want {
			t.Errorf("%s: Verify() = %q, %v (%s); want %q", name, subject, err, got, tt.want)
		}
	}
	asked := shop()
	asked.KeySet, asked.Claims["event_name"] = w.KeySet, []string{"pull_request"}
	if _, err := v.Verify(t.Context(), workload.Request{Trust: mustCheck(t, asked), Token: p.Signed(issued(now, map[string]any{"event_name": "pull_request"})), Now: now}); err != nil {
		t.Errorf("a pull request that a rule asks for: %v", err)
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	p, other := oidctest.New(t), oidctest.New(t)
	now := time.Now()
	w := shop()
	w.KeySet = keySet(t, p)
	trust, v := mustCheck(t, w), workload.NewVerifier(p)
	good := p.Signed(issued(now, nil))
	encode := base64.RawURLEncoding.EncodeToString
	payload := strings.Split(good, ".")[1]
	public, err := json.Marshal(p.Key())
	if err != nil {
		t.Fatal(err)
	}
	kid := p.Key().KeyID
	head := encode([]byte(`{"alg":"HS256","kid":"` + kid + `"}`))
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(head + "." + payload))
	for name, tt := range map[string]struct{ token, want string }{
		"another key":               {other.Signed(issued(now, nil)), "unknown_key"},
		"alg none":                  {encode([]byte(`{"alg":"none","kid":"`+kid+`"}`)) + "." + payload + ".", "algorithm"},
		"HS256 with the public key": {head + "." + payload + "." + encode(mac.Sum(nil)), "algorithm"},
		"other claims":              {strings.Split(good, ".")[0] + "." + encode([]byte(`{"iss":"`+gitHub+`"}`)) + "." + strings.Split(good, ".")[2], "signature"},
		"claims twice":              {strings.Split(good, ".")[0] + "." + encode([]byte(`{"iss":"a","iss":"`+gitHub+`"}`)) + "." + strings.Split(good, ".")[2], "token"},
		"huge":                      {strings.Repeat("a", workload.MaxToken) + "." + good, "token"},
		"no token":                  {"none", "token"},
	} {
		_, err := v.Verify(t.Context(), workload.Request{Trust: trust, Token: tt.token, Now: now})
		if got := workload.ReasonOf(err); err == nil || got != tt.want {
			t.Errorf("%s: Verify() = %v (%s), want %s", name, err, got, tt.want)
		} else if strings.Contains(err.Error(), payload) {
			t.Errorf("%s: the error has the token", name)
		}
	}
}

func TestKeysRotateAndOutliveTheirAddressForADay(t *testing.T) {
	p := oidctest.New(t)
	p.URL = "https://issuer.example.com"
	now := time.Now()
	trust := mustCheck(t, workload.Trust{Type: workload.OIDC, Issuer: p.URL, Audience: audience, Claims: map[string][]string{"sub": {"ci:build"}}})
	v := workload.NewVerifier(p)
	var allow func(*url.URL) error
	verify := func(at time.Time) string {
		t.Helper()
		_, err := v.Verify(t.Context(), workload.Request{Trust: trust, Now: at, Allow: allow, Token: p.Signed(map[string]any{
			"iss": p.URL, "aud": audience, "sub": "ci:build", "iat": at.Unix(), "exp": at.Add(time.Minute).Unix(),
		})})
		if err == nil {
			return ""
		}
		return workload.ReasonOf(err)
	}
	want := func(name string, at time.Time, reason string, requests int) {
		t.Helper()
		if got := verify(at); got != reason || p.KeyRequests() != requests {
			t.Errorf("%s: %q after %d requests for keys, want %q after %d", name, got, p.KeyRequests(), reason, requests)
		}
	}
	want("the first token", now, "", 1)
	want("the second", now.Add(time.Second), "", 1)
	p.Rotate(t)
	want("a new key, at once", now.Add(2*time.Second), "unknown_key", 1)
	want("a new key, later", now.Add(11*time.Second), "", 2)
	p.KeysDown = true
	want("old keys while the address is down", now.Add(time.Hour), "", 3)
	want("after a day", now.Add(25*time.Hour), "keys", 4)
	p.KeysDown = false
	want("when the address is back", now.Add(25*time.Hour+11*time.Second), "", 5)
	p.Document = map[string]any{"issuer": "https://other.example.com"}
	v = workload.NewVerifier(p)
	want("a document of another issuer", now, "keys", 5)
	p.Document = nil
	allow = func(u *url.URL) error {
		if u.Path == "/keys" {
			return errors.New("not allowed")
		}
		return nil
	}
	v = workload.NewVerifier(p)
	want("an address of keys that the organisation does not allow", now, "egress", 5)
	allow = nil
	want("another organisation", now, "", 6)
	allow = func(*url.URL) error { return errors.New("not allowed") }
	want("keys that another organisation read", now, "egress", 6)
}

func TestSPIFFEAcceptsIDsOfItsTrustDomain(t *testing.T) {
	p := oidctest.New(t)
	now := time.Now()
	key := p.Key()
	key.Use = "jwt-svid"
	bundle, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
	if err != nil {
		t.Fatal(err)
	}
	trust := mustCheck(t, workload.Trust{Type: workload.SPIFFE, TrustDomain: "example.org", KeySet: string(bundle), Audience: audience,
		Claims: map[string][]string{"sub": {"spiffe://example.org/ns/ci/sa/*"}}})
	v := workload.NewVerifier(p)
	for sub, accepted := range map[string]bool{
		"spiffe://example.org/ns/ci/sa/build": true, "spiffe://example.org/ns/ci/sa/a/b": false, "spiffe://example.com/ns/ci/sa/build": false,
		"spiffe://example.org/ns/ci/sa/": false,
	} {
		token := p.Signed(map[string]any{"aud": audience, "sub": sub, "exp": now.Add(time.Minute).Unix()}) // the standard needs no iat
		if _, err := v.Verify(t.Context(), workload.Request{Trust: trust, Token: token, Now: now}); (err == nil) != accepted {
			t.Errorf("%s: %v", sub, err)
		}
	}
	long := p.Signed(map[string]any{"aud": audience, "sub": "spiffe://example.org/ns/ci/sa/build", "exp": now.Add(25 * time.Hour).Unix()})
	if _, err := v.Verify(t.Context(), workload.Request{Trust: trust, Token: long, Now: now}); workload.ReasonOf(err) != "lifetime" {
		t.Errorf("a token for a day: %v", err)
	}
}

// A client of one issuer cannot cause requests for the keys of another.
func TestForeignTokensCauseNoRequests(t *testing.T) {
	now := time.Now()
	p := oidctest.New(t)
	v := workload.NewVerifier(doer(func(*http.Request) (*http.Response, error) {
		t.Error("a request was sent")
		return nil, errors.New("no")
	}))
	w := workload.Trust{Type: workload.OIDC, Issuer: "https://issuer.example.com", Audience: audience, Claims: map[string][]string{"sub": {"a:b"}}}
	if _, err := v.Verify(t.Context(), workload.Request{Trust: mustCheck(t, w), Token: p.Signed(issued(now, nil)), Now: now}); workload.ReasonOf(err) != "issuer" {
		t.Errorf("Verify() = %v", err)
	}
}

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request, guarded bool) (*http.Response, error) {
	if !guarded {
		return nil, errors.New("the request is not guarded")
	}
	return f(r)
}
