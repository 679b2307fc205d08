package upstream

import (
	"context"
	"net"
	"net/netip"
)

// ownListeners are the listeners of this process. Nothing connects to them: a request
// would lead to requests without end, or read what only the operator may.
type ownListeners []netip.AddrPort

func newOwnListeners(addrs []net.Addr) (own ownListeners) {
	for _, a := range addrs {
		if tcp, ok := a.(*net.TCPAddr); ok {
			own = append(own, addrPort(tcp))
		}
	}
	return own
}

// DialOther connects to addr as a [net.Dialer] does, except to own, the listeners of this
// process: the error is then a *RefusedError. It is for connections that a [Client] does not
// make.
func DialOther(ctx context.Context, own []net.Addr, network, addr string) (net.Conn, error) {
	return newOwnListeners(own).refuse(new(net.Dialer).DialContext)(ctx, network, addr)
}

// refuse returns dial without connections that reach a listener. It decides by the address
// that a connection has reached, because names, proxies, mapped addresses, address
// translation and the unspecified address all hide it before.
func (own ownListeners) refuse(dial dialFunc) dialFunc {
	if len(own) == 0 {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || !own.reachedBy(conn) {
			return conn, err
		}
		conn.Close()
		host, _, _ := net.SplitHostPort(addr)
		return nil, refuse(RuleOwnHost, host)
	}
}

// reachedBy reports whether the peer of conn is one of the listeners.
func (own ownListeners) reachedBy(conn net.Conn) bool {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	peer := addrPort(remote)
	if own.has(peer, conn.LocalAddr()) {
		return true
	}
	// A network that translates IPv6 leads to the IPv4 address inside.
	inner, ok := embedded(peer.Addr())
	return ok && own.has(netip.AddrPortFrom(inner, peer.Port()), conn.LocalAddr())
}

// has reports whether peer is one of the listeners. local is this end of the connection.
func (own ownListeners) has(peer netip.AddrPort, local net.Addr) bool {
	for _, l := range own {
		if l.Port() != peer.Port() {
			continue
		}
		if l.Addr() == peer.Addr() || l.Addr().IsUnspecified() && isThisMachine(peer.Addr(), local) {
			return true
		}
	}
	return false
}

// isThisMachine reports whether a peer is on this machine. A connection to an address of
// the machine itself has that address on both ends, or is on another loopback address.
// The addresses of the links are read again each time, because they change.
func isThisMachine(peer netip.Addr, local net.Addr) bool {
	if peer.IsLoopback() {
		return true
	}
	if tcp, ok := local.(*net.TCPAddr); ok && addrPort(tcp).Addr() == peer {
		return true
	}
	links, err := net.InterfaceAddrs()
	if err != nil {
		return true // the port is a listener's: rather refuse a peer than loop
	}
	for _, l := range links {
		if p, err := netip.ParsePrefix(l.String()); err == nil && p.Addr().Unmap() == peer {
			return true
		}
	}
	return false
}

// addrPort returns an address without its zone, and as IPv4 if it is mapped.
func addrPort(a *net.TCPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
