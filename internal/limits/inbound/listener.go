package inbound

import (
	"container/list"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
)

// ListenerOptions holds the limits of a [Listener].
type ListenerOptions struct {
	// Keyless is the number of connections of one address that may be open
	// without having sent a valid key. Zero or less means no limit.
	Keyless int

	// Stall is how long a client may accept nothing of what is written to it.
	// Zero means forever.
	Stall time.Duration

	// Exempt reports addresses without limits: those of trusted proxies, whose
	// connections carry requests of many clients. Nil exempts none.
	Exempt func(netip.Addr) bool

	// Plain is true if connections carry HTTP without TLS: an error response is
	// then written before a connection is closed.
	Plain bool

	// Refused is called for each connection that is rejected or closed, with
	// the reason as a metric label. It may be called concurrently. It is
	// optional.
	Refused func(reason string)
}

const (
	// youth is how long a connection is not closed in favour of a new one. A
	// client that opens hundreds at once has sent its key on all of them by
	// then.
	youth = 2 * time.Second

	// burst is the factor by which the limit may be exceeded while all
	// connections are young.
	burst = 16

	// keylessStall replaces a longer Stall until a valid key has been sent.
	keylessStall = 30 * time.Second
)

// Listener counts the connections without a valid key by address. An IPv6
// address counts as its /64 network. At the limit the oldest of them is closed
// for a new one; while all are young, up to 16 times the limit are accepted
// before new ones are rejected. It is safe for concurrent use.
type Listener struct {
	net.Listener
	o ListenerOptions

	mu      sync.Mutex
	keyless map[netip.Prefix]*list.List // of *conn, the oldest first; guarded by mu
}

// NewListener returns a listener that owns l.
func NewListener(l net.Listener, o ListenerOptions) *Listener {
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	return &Listener{Listener: l, o: o, keyless: make(map[netip.Prefix]*list.List)}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, listener: l, opened: time.Now()}
		evicted, ok := l.admit(c)
		if evicted != nil {
			l.o.Refused("keyless_oldest")
			evicted.Conn.Close()
		}
		if ok {
			return c, nil
		}
		l.o.Refused("keyless_limit")
		l.refuse(raw)
	}
}

// admit counts c. It returns the connection to close for it, if any, and false
// if c is over the limit.
func (l *Listener) admit(c *conn) (evicted *conn, ok bool) {
	address, limited := network(c.RemoteAddr())
	if l.o.Keyless <= 0 || !limited || l.o.Exempt != nil && l.o.Exempt(address.Addr()) {
		return nil, true
	}
	c.network = address.Masked()
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.keyless[c.network]
	if open == nil {
		open = list.New()
		l.keyless[c.network] = open
	}
	if open.Len() >= l.o.Keyless {
		oldest := open.Front().Value.(*conn)
		switch {
		case c.opened.Sub(oldest.opened) >= youth:
			evicted = oldest
			l.remove(oldest)
		case open.Len() >= burst*l.o.Keyless:
			return nil, false
		}
	}
	c.place = open.PushBack(c)
	l.keyless[c.network] = open // the removal deleted the list if it became empty
	return evicted, true
}

// forget stops counting c.
func (l *Listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

// remove removes c from its list. The caller must hold mu.
func (l *Listener) remove(c *conn) {
	if c.place == nil {
		return
	}
	open := l.keyless[c.network]
	open.Remove(c.place)
	c.place = nil
	if open.Len() == 0 {
		delete(l.keyless, c.network)
	}
}

// Keyless returns the number of limited connections without a valid key.
func (l *Listener) Keyless() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, open := range l.keyless {
		n += open.Len()
	}
	return n
}

// refuse writes the reason before it closes the connection. The few bytes fit
// into the buffer of a new connection.
func (l *Listener) refuse(c net.Conn) {
	defer c.Close()
	if !l.o.Plain {
		return
	}
	e := apierr.New(apierr.RateLimited,
		"too many connections from your address have sent no valid gateway key; close some or send a key on them (limits.keyless_connections is %d)", l.o.Keyless).
		WithCode("keyless_connections")
	body := e.Body()
	c.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(c,
		"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %s\r\nRetry-After: 2\r\nConnection: close\r\n\r\n%s",
		strconv.Itoa(len(body)), body)
	closeWrite(c)
}

// network returns the address of a peer with the prefix that one client has:
// its IPv4 address, or 64 bits of IPv6.
func network(a net.Addr) (netip.Prefix, bool) {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}, false
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64), true
	}
	return netip.PrefixFrom(ip, 32), true
}
