package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// StepKind is a step of connecting to a provider.
type StepKind string

// Steps, in their order.
const (
	StepAddress StepKind = "address" // the rules for addresses
	StepResolve StepKind = "resolve" // the name
	StepConnect StepKind = "connect"
	StepTLS     StepKind = "tls"
)

// Step is the result of a step.
type Step struct {
	Kind    StepKind
	Took    time.Duration
	Failure *Failure // nil if it succeeded
	Skipped string   // why it was not needed; empty if it was
}

// Reach connects to the host of u as [Client.Do] does for a request, but with a new
// connection, which it closes, and sends nothing. It returns the steps until the first
// that failed.
func (c *Client) Reach(ctx context.Context, u *url.URL, guarded bool) []Step {
	request := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}
	r := reach{client: c, guarded: guarded, request: request.WithContext(ctx)}
	if !r.step(StepAddress, func() error { return r.checkAddress(u) }) {
		return r.steps
	}
	if proxy, err := c.options.Proxy(r.request); !guarded && (proxy != nil || err != nil) {
		for _, kind := range [...]StepKind{StepResolve, StepConnect, StepTLS} {
			r.steps = append(r.steps, Step{Kind: kind, Skipped: "requests to this host go through a proxy"})
		}
		return r.steps
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if !r.step(StepResolve, func() error { return r.resolve(host, port) }) ||
		!r.step(StepConnect, func() error { return r.connect(host, port) }) {
		return r.steps
	}
	defer r.conn.Close()
	if u.Scheme != "https" {
		r.steps = append(r.steps, Step{Kind: StepTLS, Skipped: "the address begins with http, so nothing is encrypted"})
		return r.steps
	}
	r.step(StepTLS, func() error { return r.handshake(host) })
	return r.steps
}

// reach is one connection in steps.
type reach struct {
	client  *Client
	guarded bool
	request *http.Request
	steps   []Step
	addrs   []netip.Addr
	conn    net.Conn
}

// step adds the result of f, and reports whether it succeeded.
func (r *reach) step(kind StepKind, f func() error) bool {
	began := time.Now()
	err := f()
	s := Step{Kind: kind, Took: time.Since(began)}
	if err != nil {
		s.Failure = failure(r.request, nil, err)
	}
	r.steps = append(r.steps, s)
	return err == nil
}

func (r *reach) checkAddress(u *url.URL) error {
	if !r.guarded {
		return nil
	}
	return r.client.guard.check(u)
}

// resolve finds the addresses of the host. All of them must be allowed.
func (r *reach) resolve(host, port string) (err error) {
	o := &r.client.options
	ctx, cancel := context.WithTimeout(r.request.Context(), o.DialTimeout)
	defer cancel()
	d := pinnedDialer{resolver: o.Resolver}
	if r.addrs, err = d.resolve(ctx, host); err != nil || !r.guarded {
		return err
	}
	for _, a := range r.addrs {
		if err := r.client.guard.checkResolved(host, port, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *reach) connect(host, port string) (err error) {
	o := &r.client.options
	ctx, cancel := context.WithTimeout(r.request.Context(), o.DialTimeout)
	defer cancel()
	if r.guarded {
		d := pinnedDialer{dial: o.Dial}
		r.conn, err = d.dialFirst(ctx, "tcp", r.addrs, port)
	} else {
		r.conn, err = o.Dial(ctx, "tcp", net.JoinHostPort(host, port))
	}
	if err != nil {
		return &phaseError{Dial, err}
	}
	return nil
}

func (r *reach) handshake(host string) error {
	config := r.client.open.full.TLSClientConfig.Clone()
	config.ServerName = host
	ctx, cancel := context.WithTimeout(r.request.Context(), r.client.options.TLSHandshakeTimeout)
	defer cancel()
	conn := tls.Client(r.conn, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return &phaseError{TLS, err}
	}
	return nil
}
