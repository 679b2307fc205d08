package oidc_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/testing/proxytest"
	"modelgate/internal/upstream"
)

// names resolves each name to a public address.
type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

// The address of an identity provider is checked after it was resolved, which a proxy would do
// again: the metadata and tokens are fetched without one.
func TestIdentityProvidersAreReachedWithoutTheProxy(t *testing.T) {
	if proxytest.Server() != "" {
		var mu sync.Mutex
		var dialled []string
		c := upstream.New(upstream.Options{Resolver: names{}, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, addr)
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, proxytest.Server())
		}})
		defer c.Close()
		set := oidc.Settings{Issuer: "https://example.com", ClientID: "c", Secret: secret.New("s"), RedirectURL: "https://gateway.example/callback"}
		p, err := oidc.NewCache(c, nil).Provider(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(t.Context(), "code", oidc.NewFlow()); err == nil {
			t.Error("a code without a token is accepted")
		}
		mu.Lock()
		defer mu.Unlock()
		if len(dialled) == 0 || slices.ContainsFunc(dialled, func(addr string) bool { return addr != "93.184.216.34:443" }) {
			t.Errorf("dialled %q, want the address of the provider alone", dialled)
		}
		return
	}
	var mu sync.Mutex
	var paths []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.URL.Path)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/.well-known/openid-configuration" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"issuer":"https://example.com","authorization_endpoint":"https://example.com/authorize","token_endpoint":"https://example.com/token",
			"jwks_uri":"https://example.com/keys","id_token_signing_alg_values_supported":["RS256"],"response_types_supported":["code"],"subject_types_supported":["public"]}`)
	}))
	defer s.Close()
	if got := proxytest.Run(t, s); len(got) > 0 {
		t.Errorf("the proxy got %q", got)
	}
	if mu.Lock(); !slices.Contains(paths, "/token") {
		t.Errorf("the provider got %q, want a request for tokens", paths)
	}
	mu.Unlock()
}
