// Package upstream sends requests to providers.
//
// A [Client] makes single attempts: it does not follow redirects, decompress,
// or add headers except a User-Agent and, to detect loops, Cdn-Loop, and it returns every error as a
// [*Failure] whose text never contains a credential. Guarded requests, whose
// host a client chose, are checked by static rules and again after name
// resolution, and are dialled at a checked address. A [Watchdog] ends an
// attempt whose current phase takes too long. Small requests without TLS take a
// shorter way than http.Transport, on the goroutine of the caller; their
// responses are the same. The Copy functions and [Forward]
// are the only place that decides which headers are forwarded.
//
// It does not retry, choose targets, set credentials, interpret bodies or count
// bytes; see pipeline and provider.
package upstream

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Options configures a Client. The zero value works.
type Options struct {
	// TrustedHosts lists hosts that custom hosts may use in addition to public
	// addresses: "host", "host:port", "*.suffix" (optionally with a port), an
	// address, or an address range in CIDR form. New ignores an invalid entry,
	// which [CheckTrusted] reports, so that it trusts nothing. Metadata
	// addresses are always rejected.
	TrustedHosts []string

	// TrustLoopback allows custom hosts on this machine, for the demo and for
	// development.
	TrustLoopback bool

	// OwnHosts are the gateway's own names. A custom host with such a name is
	// rejected, because it would cause a loop.
	OwnHosts []string

	// OwnListeners are the addresses that this process listens on. No connection to
	// them is used, whatever name, trusted host or proxy led there; the error is a
	// *RefusedError with RuleOwnHost.
	OwnListeners []net.Addr

	// DialTimeout limits name resolution and connecting together. Default 10 s.
	DialTimeout time.Duration
	// KeepAlive is the interval of TCP keep-alive probes. Default 30 s.
	KeepAlive time.Duration
	// TLSHandshakeTimeout limits the handshake. Default 10 s.
	TLSHandshakeTimeout time.Duration
	// IdleConnTimeout is how long an unused connection is kept. Default 90 s.
	IdleConnTimeout time.Duration

	// MaxIdlePerHost is the limit of idle connections to one host. Default
	// 1024.
	MaxIdlePerHost int
	// MaxPerHost is the limit of connections to one host; further requests wait
	// within their header timeout. Zero means no limit.
	MaxPerHost int
	// MaxHeaderBytes is the limit of response headers, including informational
	// responses. Default 256 KiB.
	MaxHeaderBytes int64

	// Resolver resolves the names of guarded requests. Nil means net.DefaultResolver.
	Resolver Resolver
	// Dial connects to a "host:port", which for a guarded request is a checked
	// address. Nil means a net.Dialer with the timeouts above.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// RootCAs are the authorities trusted for TLS. Nil means the system's.
	RootCAs *x509.CertPool
	// Proxy returns the proxy of an unguarded request. Nil means the
	// environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY). Guarded requests never
	// use a proxy, since a proxy would resolve the name again.
	Proxy func(*http.Request) (*url.URL, error)
	// UserAgent is sent if a request has no User-Agent. Default "modelgate".
	UserAgent string
}

// Resolver resolves names. *net.Resolver is a Resolver.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Client sends requests to providers. It is safe for concurrent use.
type Client struct {
	guard     *guard
	open      transports         // to hosts that the operator or the provider table chose
	guarded   transports         // to hosts that a client chose
	sockets   [2]*http.Transport // as open and guarded, for connections that change their protocol
	userAgent []string           // shared by all requests; must not be changed
	element   string             // of Cdn-Loop; no other client has the same
	options   Options            // with their defaults
}

// transports are two ways to the same hosts.
type transports struct {
	full   *http.Transport
	inline *inline // nil if connections to a host are limited, which full does
}

// send sends a request with a body that can be read again, or without one. The error is
// an *unsentError if nothing of the request was written.
func (t *transports) send(req *http.Request) (*http.Response, error) {
	if t.inline != nil && t.inline.takes(req) {
		return t.inline.RoundTrip(req)
	}
	if b, ok := req.Body.(inMemory); ok {
		req.Body = b.InMemory()
	}
	traced, written := traceWriting(req)
	resp, err := t.full.RoundTrip(traced)
	if err != nil && !written.Load() {
		err = &unsentError{err}
	}
	return resp, err
}

// unsentError is the error of a request of which nothing was written.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// traceWriting returns a copy of req for an [http.Transport], and whether it may have
// written any of it: from when it has a connection for the request.
func traceWriting(req *http.Request) (*http.Request, *atomic.Bool) {
	t := &struct {
		httptrace.ClientTrace
		written atomic.Bool
	}{}
	t.GotConn = func(httptrace.GotConnInfo) { t.written.Store(true) }
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &t.ClientTrace)), &t.written
}

// inMemory is a body that an http.Transport should get as one of a type that it knows
// to be in memory.
type inMemory interface{ InMemory() io.ReadCloser }

func (t *transports) closeIdle() {
	t.full.CloseIdleConnections()
	if t.inline != nil {
		t.inline.idle.closeAll()
	}
}

// New returns a Client with these options.
func New(o Options) *Client {
	o = o.withDefaults()
	g := newGuard(o)
	pinned := &pinnedDialer{guard: g, dial: o.Dial, resolver: o.Resolver, timeout: o.DialTimeout}

	open := transports{full: newTransport(o, o.Dial)}
	open.full.Proxy = o.Proxy
	guarded := transports{full: newTransport(o, pinned.DialContext)}
	// Clients may name any number of hosts: limit the connections they leave
	// open.
	guarded.full.MaxIdleConns = o.MaxIdlePerHost
	if o.MaxPerHost == 0 {
		open.inline = newInline(o, o.Dial, func(req *http.Request) bool {
			proxy, err := o.Proxy(req)
			return proxy != nil || err != nil
		})
		guarded.inline = newInline(o, pinned.DialContext, nil)
	}
	sockets := [2]*http.Transport{newSocketTransport(o, o.Dial), newSocketTransport(o, pinned.DialContext)}
	sockets[0].Proxy = o.Proxy
	return &Client{guard: g, open: open, guarded: guarded, sockets: sockets, userAgent: []string{o.UserAgent},
		element: chainElement + rand.Text(),
		options: o}
}

// Do sends one attempt and returns the response once its headers have arrived;
// the caller closes the body. Redirects are returned like any response, and a
// compressed body stays compressed. Every error is a *Failure.
//
// A guarded request is sent only to an address that the rules of
// [Client.CheckHost] allow, and never through a proxy; it names the gateways that it
// has passed, for [Client.Enter]. Do closes the request's body, also on error, and adds the User-Agent if it is missing. A body without
// GetBody is taken for a stream from a client; Do returns when the context ends
// even if a Read of it hangs. Errors from reading the response's body are
// converted by [Classify].
func (c *Client) Do(req *http.Request, guarded bool) (*http.Response, error) {
	t := &c.open
	if guarded {
		if err := c.guard.check(req.URL); err != nil {
			closeBody(req)
			return nil, failure(req, nil, &unsentError{err})
		}
		t = &c.guarded
	}
	if _, ok := req.Header["User-Agent"]; !ok && req.Header != nil {
		req.Header["User-Agent"] = c.userAgent
	}
	c.mark(req, guarded)
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return sendUpload(t.full, req)
	}
	resp, err := t.send(req)
	if err != nil {
		return nil, failure(req, nil, err)
	}
	return resp, nil
}

// CheckHost applies the static rules to a custom host and returns it as the
// base address. It sends nothing. The error is a *RefusedError. The addresses
// of the name are checked when Do connects.
func (c *Client) CheckHost(raw string) (*url.URL, error) { return c.guard.parse(raw) }

// IsTrusted reports whether the host of an address is listed in Options.TrustedHosts, by its
// name or its address, or trusted as loopback.
func (c *Client) IsTrusted(u *url.URL) bool {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	addr, err := netip.ParseAddr(host)
	return c.guard.trusted.name(host, port) || err == nil && c.guard.trusted.addr(addr, port)
}

// Close closes idle connections. The Client remains usable.
func (c *Client) Close() {
	c.open.closeIdle()
	c.guarded.closeIdle()
	for _, t := range c.sockets {
		t.CloseIdleConnections()
	}
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
	o.Dial = newOwnListeners(o.OwnListeners).refuse(o.Dial)
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

// newTransport returns a transport without a proxy. ResponseHeaderTimeout is
// not set: the Watchdog limits that phase. A zero ExpectContinueTimeout sends
// the body immediately.
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
			// A silent peer is pinged after 30 s and the connection closed 15 s
			// later, so that a dead connection does not hold up every stream on
			// it.
			SendPingTimeout: 30 * time.Second,
			PingTimeout:     15 * time.Second,
			// A connection without progress in writing for this long is closed.
			WriteByteTimeout: 30 * time.Second,
			// The default of 4 MiB is the memory that one slow reader could
			// occupy for one stream.
			MaxReceiveBufferPerStream: 1 << 20,
		},
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
