package upstream_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"modelgate/internal/upstream"
)

// listening returns a server on addr and the number of requests that it got.
func listening(t *testing.T, addr string) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	count := new(atomic.Int32)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { count.Add(1) })}}
	s.Start()
	t.Cleanup(s.Close)
	return s, count
}

func TestOwnListenersAreNeverReached(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		own, count := listening(t, listen)
		for _, tt := range []struct{ name, host, resolved string }{
			{"its address", "127.0.0.1", ""},
			{"a mapped address", "[::ffff:127.0.0.1]", ""},
			{"the unspecified address", "0.0.0.0", ""},
			{"a name", "gateway.example.com", "127.0.0.1"},
			{"a name with a mapped address", "gateway.example.com", "::ffff:127.0.0.1"},
			{"a name with the unspecified address", "gateway.example.com", "0.0.0.0"},
		} {
			for _, guarded := range []bool{true, false} {
				c := upstream.New(upstream.Options{
					TrustedHosts: []string{"0.0.0.0/0", "*.example.com"}, OwnListeners: []net.Addr{own.Listener.Addr()},
					Resolver: &resolver{responses: [][]string{{tt.resolved}}},
					Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
						if _, port, _ := net.SplitHostPort(addr); tt.resolved != "" && !guarded { // the dialler resolves
							addr = net.JoinHostPort(tt.resolved, port)
						}
						return new(net.Dialer).DialContext(ctx, network, addr)
					},
				})
				for _, method := range []string{"GET", "POST"} { // over both ways to a host
					_, err := c.Do(mustRequest(t, t.Context(), method, "http://"+tt.host+":"+portOf(own.URL), nil), guarded)
					if f := mustFail(t, err, upstream.Refused); f.Rule != upstream.RuleOwnHost {
						t.Errorf("%s by %s, guarded %t: rule %q, want own-host", listen, tt.name, guarded, f.Rule)
					}
				}
				c.Close()
			}
		}
		if n := count.Load(); n != 0 {
			t.Errorf("%s: %d requests arrived", listen, n)
		}
	}
}

func TestProxyThatIsAnOwnListenerIsNotReached(t *testing.T) {
	own, count := listening(t, "127.0.0.1:0")
	proxy, _ := url.Parse(own.URL)
	c := upstream.New(upstream.Options{OwnListeners: []net.Addr{own.Listener.Addr()}, Proxy: http.ProxyURL(proxy)})
	defer c.Close()
	for _, address := range []string{"http://models.example.com", "https://models.example.com"} {
		_, err := c.Do(mustRequest(t, t.Context(), "GET", address, nil), false)
		if f := mustFail(t, err, upstream.Refused); f.Rule != upstream.RuleOwnHost {
			t.Errorf("%s: rule %q, want own-host", address, f.Rule)
		}
	}
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestOtherListenersOfTheMachineAreReached(t *testing.T) {
	own, _ := listening(t, "0.0.0.0:0")
	other, count := listening(t, "127.0.0.1:0")
	c := upstream.New(upstream.Options{TrustLoopback: true, OwnListeners: []net.Addr{own.Listener.Addr()}})
	defer c.Close()
	res, err := c.Do(mustRequest(t, t.Context(), "GET", other.URL, nil), true)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if count.Load() != 1 {
		t.Error("the request did not arrive")
	}
}

// translated is a connection by an address that a network translates.
type translated struct {
	net.Conn
	remote net.Addr
}

// RemoteAddr implements net.Conn.
func (c *translated) RemoteAddr() net.Addr { return c.remote }

// TestOwnListenersAreNotReachedByTranslatedAddresses dials by the prefixes by which networks
// translate IPv6 into IPv4: the peer's address is the one that was dialled.
func TestOwnListenersAreNotReachedByTranslatedAddresses(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		own, count := listening(t, listen)
		for _, host := range []string{"64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "::ffff:0:127.0.0.1"} {
			for _, guarded := range []bool{true, false} {
				c := upstream.New(upstream.Options{
					TrustedHosts: []string{"::/0", "0.0.0.0/0"}, OwnListeners: []net.Addr{own.Listener.Addr()},
					Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
						_, port, _ := net.SplitHostPort(addr)
						conn, err := new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
						if err != nil {
							return nil, err
						}
						remote := *conn.RemoteAddr().(*net.TCPAddr)
						remote.IP = net.ParseIP(host)
						return &translated{conn, &remote}, nil
					},
				})
				_, err := c.Do(mustRequest(t, t.Context(), "GET", "http://["+host+"]:"+portOf(own.URL), nil), guarded)
				if f := mustFail(t, err, upstream.Refused); f.Rule != upstream.RuleOwnHost {
					t.Errorf("%s by %s, guarded %t: rule %q, want own-host", listen, host, guarded, f.Rule)
				}
				c.Close()
			}
		}
		if n := count.Load(); n != 0 {
			t.Errorf("%s: %d requests arrived", listen, n)
		}
	}
}

func TestDialOtherConnectsToOthersOnly(t *testing.T) {
	own, _ := listening(t, "127.0.0.1:0")
	other, _ := listening(t, "127.0.0.1:0")
	listeners := []net.Addr{own.Listener.Addr()}
	conn, err := upstream.DialOther(t.Context(), listeners, "tcp", own.Listener.Addr().String())
	if refused, ok := errors.AsType[*upstream.RefusedError](err); !ok || refused.Rule != upstream.RuleOwnHost || conn != nil {
		t.Errorf("an own listener: %v, %v, want own-host", conn, err)
	}
	conn, err = upstream.DialOther(t.Context(), listeners, "tcp", other.Listener.Addr().String())
	if err != nil {
		t.Fatalf("another listener: %v", err)
	}
	conn.Close()
}
