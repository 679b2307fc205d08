package clientaddr

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// headerTime is how long a trusted proxy has to send its PROXY header.
	headerTime = 5 * time.Second

	// maxPending is the number of connections that may wait for their header.
	maxPending = 1024

	// Sizes of headers in bytes, additional fields included.
	maxVersion1 = 107 // by the specification
	maxVersion2 = 4096
)

// listener reads the PROXY protocol of connections from trusted proxies.
type listener struct {
	net.Listener
	policy  func() *Policy
	refused func(peer net.Addr, err error)

	start   sync.Once
	ready   chan accepted
	pending chan struct{} // one token for each connection that waits for its header
	done    chan struct{}
	stop    sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// NewListener returns a listener whose connections from trusted proxies have to
// begin with a PROXY header of version 1 or 2, and report the client's address
// that it names. A connection without one is closed and reported to refused,
// which may be called concurrently. Connections from others pass unread. The
// listener owns l; its first Accept starts a goroutine that ends with Close.
func NewListener(l net.Listener, policy func() *Policy, refused func(peer net.Addr, err error)) net.Listener {
	return &listener{
		Listener: l, policy: policy, refused: refused,
		ready: make(chan accepted), pending: make(chan struct{}, maxPending), done: make(chan struct{}),
	}
}

// Accept implements net.Listener. Slow headers do not delay other connections.
func (l *listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.run() })
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that wait for their header are
// closed.
func (l *listener) Close() error {
	l.stop.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *listener) run() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !l.give(accepted{nil, err}) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if !l.policy().Trusts(Host(conn.RemoteAddr().String())) {
			l.give(accepted{conn, nil})
			continue
		}
		select {
		case l.pending <- struct{}{}:
			go l.read(conn)
		case <-l.done:
			conn.Close()
		}
	}
}

// give hands a connection to Accept. It reports false after Close.
func (l *listener) give(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.done:
		if a.conn != nil {
			a.conn.Close()
		}
		return false
	}
}

func (l *listener) read(c net.Conn) {
	defer func() { <-l.pending }()
	closed := make(chan struct{})
	defer close(closed)
	go func() {
		select {
		case <-l.done:
			c.Close()
		case <-closed:
		}
	}()
	c.SetReadDeadline(time.Now().Add(headerTime))
	r := bufio.NewReaderSize(c, maxVersion2)
	source, err := ReadHeader(r)
	if err != nil {
		l.refused(c.RemoteAddr(), err)
		c.Close()
		return
	}
	c.SetReadDeadline(time.Time{})
	p := &proxied{Conn: c, buffered: r, remote: c.RemoteAddr()}
	if source.IsValid() {
		p.remote = net.TCPAddrFromAddrPort(source)
	}
	l.give(accepted{p, nil})
}

// proxied is a connection whose PROXY header has been read.
type proxied struct {
	net.Conn
	remote   net.Addr
	buffered *bufio.Reader // what was read with the header; nil once it is empty
}

// RemoteAddr implements net.Conn.
func (p *proxied) RemoteAddr() net.Addr { return p.remote }

// Read implements net.Conn.
func (p *proxied) Read(b []byte) (int, error) {
	if p.buffered != nil {
		if p.buffered.Buffered() > 0 {
			return p.buffered.Read(b)
		}
		p.buffered = nil
	}
	return p.Conn.Read(b)
}

var signature2 = []byte("\r\n\r\n\x00\r\nQUIT\n")

// ReadHeader reads a PROXY header of version 1 or 2 from r, whose buffer has to
// hold 4096 bytes, and leaves r behind it. The source is invalid if the proxy
// speaks for itself or knows no address.
//
// https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
func ReadHeader(r *bufio.Reader) (netip.AddrPort, error) {
	first, err := r.Peek(1)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading the PROXY header: %w", err)
	}
	if first[0] == signature2[0] {
		return readVersion2(r)
	}
	if first[0] != 'P' {
		return netip.AddrPort{}, errNoHeader
	}
	return readVersion1(r)
}

var (
	errNoHeader   = errors.New("the connection does not begin with a PROXY header")
	errBadHeader1 = errors.New("the PROXY header of version 1 is malformed")
	errBadHeader2 = errors.New("the PROXY header of version 2 is malformed")
)

func readVersion1(r *bufio.Reader) (none netip.AddrPort, err error) {
	line := make([]byte, 0, maxVersion1)
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if len(line) == maxVersion1 {
			return none, errBadHeader1
		}
		b, err := r.ReadByte()
		if err != nil {
			return none, fmt.Errorf("reading the PROXY header: %w", err)
		}
		line = append(line, b)
	}
	text, ok := strings.CutPrefix(string(line[:len(line)-2]), "PROXY ")
	if !ok {
		return none, errNoHeader
	}
	if text == "UNKNOWN" || strings.HasPrefix(text, "UNKNOWN ") {
		return none, nil
	}
	fields := strings.Split(text, " ")
	if len(fields) != 5 {
		return none, errBadHeader1
	}
	source, ok := parseVersion1(fields[0], fields[1], fields[3])
	if _, fine := parseVersion1(fields[0], fields[2], fields[4]); !ok || !fine {
		return none, errBadHeader1
	}
	return source, nil
}

func parseVersion1(family, host, port string) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" || (family != "TCP4" || !a.Is4()) && (family != "TCP6" || a.Is4()) {
		return netip.AddrPort{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != port {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), true
}

func readVersion2(r *bufio.Reader) (none netip.AddrPort, err error) {
	const fixed = 16
	head, err := r.Peek(fixed)
	if err != nil && !errors.Is(err, io.EOF) {
		return none, fmt.Errorf("reading the PROXY header: %w", err)
	}
	if len(head) < fixed || !bytes.HasPrefix(head, signature2) {
		return none, errNoHeader
	}
	command, family := head[12], head[13]
	size := fixed + int(binary.BigEndian.Uint16(head[14:]))
	if command>>4 != 2 || size > maxVersion2 {
		return none, errBadHeader2
	}
	all, err := r.Peek(size)
	if err != nil {
		return none, fmt.Errorf("reading the PROXY header: %w", err)
	}
	source, err := parseVersion2(command, family, all[fixed:])
	r.Discard(size)
	return source, err
}

func parseVersion2(command, family byte, body []byte) (none netip.AddrPort, err error) {
	switch command & 0xf {
	case 0: // LOCAL: the proxy itself, for example its health check
		return none, nil
	case 1:
	default:
		return none, errBadHeader2
	}
	length := 0
	switch family >> 4 {
	case 1:
		length = 4
	case 2:
		length = 16
	default: // unspecified, or a Unix socket
		return none, nil
	}
	if len(body) < 2*length+4 {
		return none, errBadHeader2
	}
	a, _ := netip.AddrFromSlice(body[:length])
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(body[2*length:])), nil
}
