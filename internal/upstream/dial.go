package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"
)

// phaseError is an error with the step of connecting that it comes from.
type phaseError struct {
	kind FailureKind
	err  error
}

func (e *phaseError) Error() string { return e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// dialPlain returns dial with its errors marked as dial errors.
func dialPlain(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, &phaseError{Dial, err}
		}
		return conn, nil
	}
}

// handshaker dials and does the TLS handshake itself, so that handshake and
// dial errors have different types.
type handshaker struct {
	dial    dialFunc
	config  *tls.Config
	timeout time.Duration
}

// DialContext returns a *tls.Conn, whose negotiated protocol the transport
// reads.
func (h *handshaker) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := h.dial(ctx, network, addr)
	if err != nil {
		return nil, &phaseError{Dial, err}
	}
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		raw.Close()
		return nil, &phaseError{Dial, err}
	}
	config := h.config.Clone()
	config.ServerName = name
	conn := tls.Client(raw, config)
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &phaseError{TLS, err}
	}
	return conn, nil
}

// pinnedDialer resolves a name itself, checks every address and connects only
// to a checked one. A later change of the name's addresses has no effect.
type pinnedDialer struct {
	guard    *guard
	dial     dialFunc
	resolver Resolver
	timeout  time.Duration
}

// DialContext connects to addr, a "host:port".
func (d *pinnedDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if err := d.guard.checkResolved(host, port, a); err != nil {
			return nil, err
		}
	}
	return d.dialFirst(ctx, network, addrs, port)
}

func (d *pinnedDialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &phaseError{DNS, err}
	}
	if len(addrs) == 0 {
		return nil, &phaseError{DNS, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return addrs, nil
}

// dialFirst tries the addresses in the resolver's order and gives each an equal
// share of the remaining time.
func (d *pinnedDialer) dialFirst(ctx context.Context, network string, addrs []netip.Addr, port string) (net.Conn, error) {
	var errs []error
	for i, a := range addrs {
		conn, err := d.dialOne(ctx, network, net.JoinHostPort(a.String(), port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (d *pinnedDialer) dialOne(ctx context.Context, network, addr string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return d.dial(ctx, network, addr)
}
