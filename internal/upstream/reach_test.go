package upstream_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/upstream"
)

// reached returns the steps as words.
func reached(steps []upstream.Step) string {
	var list []string
	for _, s := range steps {
		word := string(s.Kind) + " ok"
		if s.Failure != nil {
			word = string(s.Kind) + " " + s.Failure.Kind.String()
		} else if s.Skipped != "" {
			word = string(s.Kind) + " skipped"
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}

func TestReachConnectsStepByStep(t *testing.T) {
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	trusting := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	ask := func(o upstream.Options, address string, guarded bool) string {
		t.Helper()
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if o.Proxy == nil {
			o.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
		}
		return reached(upstream.New(o).Reach(t.Context(), u, guarded))
	}
	own := plain.Listener.Addr()
	for _, tt := range []struct {
		name, got, want string
	}{
		{"without TLS", ask(upstream.Options{}, plain.URL, false), "address ok, resolve ok, connect ok, tls skipped"},
		{"with TLS", ask(upstream.Options{RootCAs: trusting}, secure.URL, false), "address ok, resolve ok, connect ok, tls ok"},
		{"an unknown authority", ask(upstream.Options{}, secure.URL, false), "address ok, resolve ok, connect ok, tls tls"},
		{"guarded, and trusted", ask(upstream.Options{TrustLoopback: true}, plain.URL, true), "address ok, resolve ok, connect ok, tls skipped"},
		{"guarded", ask(upstream.Options{}, plain.URL, true), "address refused"},
		{"the gateway itself", ask(upstream.Options{OwnListeners: []net.Addr{own}}, plain.URL, false), "address ok, resolve ok, connect refused"},
		{"through a proxy", ask(upstream.Options{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.example") }}, plain.URL, false),
			"address ok, resolve skipped, connect skipped, tls skipped"},
		{"a broken proxy setting", ask(upstream.Options{Proxy: func(*http.Request) (*url.URL, error) { return nil, errors.New("broken") }}, plain.URL, false),
			"address ok, resolve skipped, connect skipped, tls skipped"},
		{"nobody", ask(upstream.Options{TrustLoopback: true}, "http://127.0.0.1:1", true), "address ok, resolve ok, connect dial"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}
