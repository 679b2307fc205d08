package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/proxytest"
	"modelgate/internal/upstream"
)

var discardLog = log.New(io.Discard, "", 0)

func mustOK(t *testing.T, c *upstream.Client, url string) {
	t.Helper()
	resp, err := c.Do(mustRequest(t, t.Context(), "POST", url, strings.NewReader("{}")), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, resp); got != "ok" {
		t.Fatalf("got %q, want ok", got)
	}
}

func okServer(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	t.Cleanup(s.Close)
	return s
}

func TestAGuardedNameIsDialledAtTheCheckedAddress(t *testing.T) {
	s := okServer(t)
	// 127.0.0.1 stands for a public address; the second answer is the attack.
	names := &resolver{responses: [][]string{{"127.0.0.1"}, {"::1"}}}
	c := upstream.New(upstream.Options{Resolver: names, TrustedHosts: []string{"127.0.0.1/32"}})
	at := "http://rebind.example.com:" + portOf(s.URL)

	mustOK(t, c, at)
	if n := names.calls.Load(); n != 1 {
		t.Errorf("the name was resolved %d times for one connection, want once", n)
	}
	mustOK(t, c, at) // the same connection
	c.Close()

	_, err := c.Do(mustRequest(t, t.Context(), "POST", at, strings.NewReader("{}")), true)
	f := mustFail(t, err, upstream.Refused)
	if f.Rule != upstream.RuleLoopback || !strings.Contains(f.Error(), "loopback-address") || strings.Contains(f.Error(), "::1") {
		t.Errorf("got rule %q, %v; want loopback-address, and the address untold", f.Rule, f)
	}
}

func TestEveryAddressOfAGuardedNameIsChecked(t *testing.T) {
	s := okServer(t)
	for _, tt := range []struct {
		response []string
		rule     string
	}{
		{[]string{"127.0.0.1", "10.0.0.1"}, upstream.RulePrivate},
		{[]string{"10.0.0.1"}, upstream.RulePrivate},
		{[]string{"127.0.0.1", "::ffff:10.0.0.1"}, upstream.RulePrivate},
		{[]string{"127.0.0.1", "169.254.169.254"}, upstream.RuleMetadata},
		{[]string{"127.0.0.1", "64:ff9b::a9fe:a9fe"}, upstream.RuleMetadata},
		{[]string{"fe80::1%eth0"}, upstream.RuleLinkLocal},
		{[]string{"127.0.0.1", "0.0.0.0"}, upstream.RuleUnspecified},
	} {
		c := upstream.New(upstream.Options{Resolver: &resolver{responses: [][]string{tt.response}}, TrustedHosts: []string{"127.0.0.1"}})
		_, err := c.Do(mustRequest(t, t.Context(), "GET", "http://a.example.com:"+portOf(s.URL), nil), true)
		if f := mustFail(t, err, upstream.Refused); f.Rule != tt.rule {
			t.Errorf("%v: refused by %q, want %q", tt.response, f.Rule, tt.rule)
		}
	}
}

func TestATrustedNameMayResolveInside(t *testing.T) {
	s := okServer(t)
	names := &resolver{responses: [][]string{{"127.0.0.1"}}}
	mustOK(t, upstream.New(upstream.Options{Resolver: names, TrustedHosts: []string{"*.models.corp"}}), "http://a.models.corp:"+portOf(s.URL))

	c := upstream.New(upstream.Options{Resolver: &resolver{responses: [][]string{{"169.254.169.254"}}}, TrustedHosts: []string{"*.models.corp"}})
	_, err := c.Do(mustRequest(t, t.Context(), "GET", "http://a.models.corp", nil), true)
	if f := mustFail(t, err, upstream.Refused); f.Rule != upstream.RuleMetadata {
		t.Errorf("refused by %q, want %q", f.Rule, upstream.RuleMetadata)
	}
}

func TestTheNextAddressIsTriedWhenOneDoesNotConnect(t *testing.T) {
	s := okServer(t)
	names := &resolver{responses: [][]string{{"127.0.0.3", "127.0.0.1"}}}
	mustOK(t, upstream.New(upstream.Options{Resolver: names, TrustLoopback: true}), "http://a.example.com:"+portOf(s.URL))
}

func TestStaticRulesApplyToAGuardedRequestToo(t *testing.T) {
	names := &resolver{responses: [][]string{{"127.0.0.1"}}}
	c := upstream.New(upstream.Options{Resolver: names, TrustedHosts: []string{"127.0.0.1"}})
	for _, tt := range []struct{ url, rule string }{
		{"http://db.internal/", upstream.RuleBlockedSuffix},
		{"http://DB.Internal/", upstream.RuleBlockedSuffix},
		{"http://a.example.com:6379/", upstream.RuleBlockedPort},
		{"http://10.0.0.1/", upstream.RulePrivate},
		{"http://u:p@a.example.com/", upstream.RuleUserInfo},
		{"ftp://a.example.com/", upstream.RuleScheme},
	} {
		_, err := c.Do(mustRequest(t, t.Context(), "GET", tt.url, nil), true)
		if f := mustFail(t, err, upstream.Refused); f.Rule != tt.rule {
			t.Errorf("%s: refused by %q, want %q", tt.url, f.Rule, tt.rule)
		}
	}
	if n := names.calls.Load(); n != 0 {
		t.Errorf("%d names were resolved, want none", n)
	}
}

func TestARefusedRequestClosesItsBody(t *testing.T) {
	body := &closeRecorder{Reader: strings.NewReader("x")}
	_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "POST", "http://10.0.0.1", body), true)
	mustFail(t, err, upstream.Refused)
	if !body.closed {
		t.Error("the body was left open")
	}
}

type closeRecorder struct {
	io.Reader
	closed bool
}

func (c *closeRecorder) Close() error { c.closed = true; return nil }

func TestAGuardedNameThatDoesNotResolve(t *testing.T) {
	c := upstream.New(upstream.Options{Resolver: &resolver{responses: [][]string{{}}}})
	_, err := c.Do(mustRequest(t, t.Context(), "GET", "http://nothing.example.com/?key=pl4nted", nil), true)
	f := mustFail(t, err, upstream.DNS)
	if want := "calling nothing.example.com: the name could not be resolved (no such host)"; f.Error() != want {
		t.Errorf("got %q, want %q", f, want)
	}
}

func TestAResolverThatFailsOtherwiseIsStillAboutTheName(t *testing.T) {
	c := upstream.New(upstream.Options{Resolver: brokenResolver{}})
	_, err := c.Do(mustRequest(t, t.Context(), "GET", "http://a.example.com", nil), true)
	mustFail(t, err, upstream.DNS)
}

type brokenResolver struct{}

func (brokenResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("broken")
}

func TestOnlyUnguardedRequestsUseTheProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "proxied ", r.URL.Host) }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := okServer(t)
	c := upstream.New(upstream.Options{
		Proxy: http.ProxyURL(at), TrustedHosts: []string{"127.0.0.1"}, Resolver: &resolver{responses: [][]string{{"127.0.0.1"}}},
	})
	mustOK(t, c, "http://a.example.com:"+portOf(s.URL))

	resp, err := c.Do(mustRequest(t, t.Context(), "GET", "http://a.example.com", nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, resp); got != "proxied a.example.com" {
		t.Errorf("an unguarded request got %q, want it proxied", got)
	}
}

// TestTheEnvironmentChoosesTheProxy sets HTTPS_PROXY, HTTP_PROXY and NO_PROXY as the manual
// says.
func TestTheEnvironmentChoosesTheProxy(t *testing.T) {
	if proxytest.Server() != "" {
		askThroughEnvironment(t)
		return
	}
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "provider") }))
	defer provider.Close()
	if got, want := proxytest.Run(t, provider), []string{"CONNECT example.com:443", "GET example.com"}; !slices.Equal(got, want) {
		t.Errorf("the proxy was asked for %q, want %q", got, want)
	}
}

// askThroughEnvironment sends requests in the process with the variables. Connections to
// other hosts than the proxy are connections to the provider.
func askThroughEnvironment(t *testing.T) {
	var direct []string
	c := upstream.New(upstream.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !strings.Contains(os.Getenv("HTTPS_PROXY"), addr) {
			direct = append(direct, addr)
			addr = proxytest.Server()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	for _, tt := range []struct{ url, want, direct string }{
		{"https://example.com/v1", "provider", ""},
		{"http://example.com/v1", "proxied example.com", ""},
		{"https://models.internal/v1", "", "models.internal:443"},
	} {
		direct = nil
		resp, err := c.Do(mustRequest(t, t.Context(), "GET", tt.url, nil), false)
		if tt.want != "" {
			if err != nil {
				t.Fatal(err)
			}
			if got := mustRead(t, resp); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.url, got, tt.want)
			}
		} else if err == nil {
			resp.Body.Close()
		}
		if got := strings.Join(direct, " "); got != tt.direct {
			t.Errorf("%s: connected directly to %q, want %q", tt.url, got, tt.direct)
		}
	}
}
