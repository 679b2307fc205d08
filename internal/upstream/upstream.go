// Package upstream sends requests to providers and nowhere else.
//
// A [Client] makes one attempt at a time: it follows no redirect, undoes no
// compression, adds no header but a User-Agent, and answers every error with a
// [*Failure] whose text never holds a credential. Guarded requests, those whose
// host a client chose, are checked by static rules and again after name
// resolution, and are dialled at an address that was checked. A [Watchdog] ends
// an attempt whose current phase lasts too long. The Copy functions and
// [Forward] are the one place that says which headers cross an origin.
//
// Retries, the choice of a target, credentials and what a body means are left
// to the callers, as is counting bytes.
package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Options configure a Client. The zero value works.
type Options struct {
	// TrustedHosts lists what custom hosts may reach besides public addresses:
	// "host", "host:port", "*.suffix" (optionally with a port), an address, or
	// an address range in CIDR form. [CheckTrusted] tells whether an entry is
	// well formed; New ignores one that is not, so that it trusts nothing.
	// Metadata addresses are refused whatever the list says.
	TrustedHosts []string

	// TrustLoopback lets custom hosts reach this machine, for the demo and
	// for development.
	TrustLoopback bool

	// OwnHosts are the names under which the gateway itself is reached. A
	// custom host of such a name is refused, because it would make a loop.
	OwnHosts []string

	// DialTimeout limits name resolution and connecting together. Default 10 s.
	DialTimeout time.Duration
	// KeepAlive is the interval of TCP keep-alive probes. Default 30 s.
	KeepAlive time.Duration
	// TLSHandshakeTimeout limits the handshake. Default 10 s.
	TLSHandshakeTimeout time.Duration
	// IdleConnTimeout is how long an unused connection is kept. Default 90 s.
	IdleConnTimeout time.Duration

	// MaxIdlePerHost bounds the unused connections to one host. Default 1024.
	MaxIdlePerHost int
	// MaxPerHost bounds all connections to one host; requests above it wait
	// inside their header timeout. Zero means no bound.
	MaxPerHost int
	// MaxHeaderBytes bounds a response's header, informational responses
	// included. Default 256 KiB.
	MaxHeaderBytes int64

	// Resolver resolves the names of guarded requests. Nil means net.DefaultResolver.
	Resolver Resolver
	// Dial connects to a "host:port", of a guarded request to an address that
	// was checked. Nil means a net.Dialer with the times above.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// RootCAs are the authorities trusted for TLS. Nil means the system's.
	RootCAs *x509.CertPool
	// Proxy chooses the proxy of an unguarded request. Nil means the
	// environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY). Guarded requests never
	// use a proxy, since a proxy would resolve the name a second time.
	Proxy func(*http.Request) (*url.URL, error)
	// UserAgent is sent where a request has no User-Agent. Default "modelgate".
	UserAgent string
}

// Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Client sends requests to providers. It is safe for concurrent use.
type Client struct {
	guard     *guard
	open      *http.Transport // hosts that the operator or the provider table chose
	guarded   *http.Transport // hosts that a client chose
	userAgent []string        // shared by all requests, never changed
}

// New returns a Client that follows o.
func New(o Options) *Client {
	o = o.withDefaults()
	g := newGuard(o)
	pinned := &pinnedDialer{guard: g, dial: o.Dial, resolver: o.Resolver, timeout: o.DialTimeout}

	open := newTransport(o, o.Dial)
	open.Proxy = o.Proxy
	guarded := newTransport(o, pinned.DialContext)
	// Clients may name any number of hosts: bound what they leave open.
	guarded.MaxIdleConns = o.MaxIdlePerHost

	return &Client{guard: g, open: open, guarded: guarded, userAgent: []string{o.UserAgent}}
}

// Do sends one attempt and returns the response once its header is there; the
// caller closes the body. Redirects are answers like any other, and a
// compressed body stays compressed. Every error is a *Failure.
//
// A guarded request goes only to an address that the rules of [Client.CheckHost]
// allow and never through a proxy. Do closes the request's body, also on
// error, and adds the User-Agent where the header has none. A body without
// GetBody is taken for a stream from a client; Do returns when the context
// ends though a Read of it still hangs. An error while the
// response's body is read is put into words by [Classify].
func (c *Client) Do(req *http.Request, guarded bool) (*http.Response, error) {
	t := c.open
	if guarded {
		if err := c.guard.check(req.URL); err != nil {
			closeBody(req)
			return nil, Classify(req, err)
		}
		t = c.guarded
	}
	if _, ok := req.Header["User-Agent"]; !ok && req.Header != nil {
		req.Header["User-Agent"] = c.userAgent
	}
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return sendUpload(t, req)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, failure(req, nil, err)
	}
	return resp, nil
}

// CheckHost applies the static rules to a custom host, before anything is
// sent, and returns it as the base address to use. The error is a
// *RefusedError. What the name resolves to is checked when Do connects.
func (c *Client) CheckHost(raw string) (*url.URL, error) { return c.guard.parse(raw) }

// Close closes the connections that no request uses. The Client stays usable.
func (c *Client) Close() {
	c.open.CloseIdleConnections()
	c.guarded.CloseIdleConnections()
}

func (o Options) withDefaults() Options {
	o.DialTimeout = or(o.DialTimeout, 10*time.Second)
	o.KeepAlive = or(o.KeepAlive, 30*time.Second)
	o.TLSHandshakeTimeout = or(o.TLSHandshakeTimeout, 10*time.Second)
	o.IdleConnTimeout = or(o.IdleConnTimeout, 90*time.Second)
	o.MaxIdlePerHost = or(o.MaxIdlePerHost, 1024)
	o.MaxHeaderBytes = or(o.MaxHeaderBytes, 256<<10)
	o.UserAgent = or(o.UserAgent, "modelgate")
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: o.DialTimeout, KeepAlive: o.KeepAlive}).DialContext
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	return o
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// newTransport returns a transport without a proxy. ResponseHeaderTimeout stays
// unset: the Watchdog limits that phase. ExpectContinueTimeout zero sends the
// body at once.
func newTransport(o Options, dial dialFunc) *http.Transport {
	tlsConfig := &tls.Config{
		RootCAs:            o.RootCAs,
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(512),
	}
	hs := &handshaker{dial: dial, config: tlsConfig, timeout: o.TLSHandshakeTimeout}
	return &http.Transport{
		DialContext:            dialPlain(dial),
		DialTLSContext:         hs.DialContext,
		TLSClientConfig:        tlsConfig, // for TLS through a proxy
		TLSHandshakeTimeout:    o.TLSHandshakeTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		MaxConnsPerHost:        o.MaxPerHost,
		IdleConnTimeout:        o.IdleConnTimeout,
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		ReadBufferSize:         16 << 10,
		WriteBufferSize:        8 << 10,
		HTTP2: &http.HTTP2Config{
			// A silent peer is asked after 30 s and given up 15 s later, so
			// that a dead connection does not hold every stream on it.
			SendPingTimeout: 30 * time.Second,
			PingTimeout:     15 * time.Second,
			// Zero progress for this long while writing ends the connection.
			WriteByteTimeout: 30 * time.Second,
			// The default of 4 MiB is what one slow reader would make the
			// gateway hold for one stream.
			MaxReceiveBufferPerStream: 1 << 20,
		},
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
