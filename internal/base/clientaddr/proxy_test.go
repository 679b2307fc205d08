package clientaddr_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/clientaddr"
	"modelgate/internal/testing/waittest"
)

const v2 = "\r\n\r\n\x00\r\nQUIT\n"

// version2 is a header of 192.0.2.1:258 with further fields behind the addresses.
func version2(command, family byte, more string) string {
	body := "\xc0\x00\x02\x01" + "\x0a\x00\x00\x01" + "\x01\x02" + "\x00\x50" + more
	return v2 + string([]byte{command, family, byte(len(body) >> 8), byte(len(body))}) + body
}

var proxyHeaders = []struct {
	name, bytes string
	want        string // the source, "none" or the error
}{
	{"version 1", "PROXY TCP4 192.0.2.1 10.0.0.1 56324 443\r\n", "192.0.2.1:56324"},
	{"version 1, IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", "[2001:db8::1]:1"},
	{"version 1, unknown", "PROXY UNKNOWN\r\n", "none"},
	{"version 1, unknown with addresses", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "none"},
	{"version 1, wrong family", "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", "version 1 is malformed"},
	{"version 1, port out of range", "PROXY TCP4 192.0.2.1 10.0.0.1 65536 443\r\n", "version 1 is malformed"},
	{"version 1, port with a sign", "PROXY TCP4 192.0.2.1 10.0.0.1 +1 443\r\n", "version 1 is malformed"},
	{"version 1, two spaces", "PROXY TCP4  192.0.2.1 10.0.0.1 1 443\r\n", "version 1 is malformed"},
	{"version 1, short", "PROXY TCP4 192.0.2.1\r\n", "version 1 is malformed"},
	{"version 1, no end", "PROXY TCP4 " + strings.Repeat("1", 4000), "version 1 is malformed"},
	{"version 1, cut", "PROXY TCP4 192.0", "reading the PROXY header"},
	{"version 2", version2(0x21, 0x11, ""), "192.0.2.1:258"},
	{"version 2 with further fields", version2(0x21, 0x11, "\x04\x00\x03abc"), "192.0.2.1:258"},
	{"version 2, local", version2(0x20, 0x11, ""), "none"},
	{"version 2, unspecified", version2(0x21, 0x00, ""), "none"},
	{"version 2, IPv6 shorter than its addresses", version2(0x21, 0x21, ""), "version 2 is malformed"},
	{"version 2, unknown command", version2(0x22, 0x11, ""), "version 2 is malformed"},
	{"version 3", version2(0x31, 0x11, ""), "version 2 is malformed"},
	{"version 2, too large", v2 + "\x21\x11\xff\xff", "version 2 is malformed"},
	{"version 2, cut", version2(0x21, 0x11, "")[:20], "reading the PROXY header"},
	{"no header", "GET / HTTP/1.1\r\n\r\n", "does not begin with a PROXY header"},
	{"a POST", "POST / HTTP/1.1\r\n\r\n", "does not begin with a PROXY header"},
	{"nothing", "", "reading the PROXY header"},
}

func TestProxyHeadersAreReadToTheirEnd(t *testing.T) {
	for _, tt := range proxyHeaders {
		t.Run(tt.name, func(t *testing.T) {
			r := bufio.NewReaderSize(strings.NewReader(tt.bytes+"GET /"), 4096)
			if strings.Contains(tt.want, "reading") { // nothing comes after it
				r = bufio.NewReaderSize(strings.NewReader(tt.bytes), 4096)
			}
			source, err := clientaddr.ReadHeader(r)
			got := source.String()
			if err != nil {
				got = err.Error()
			} else if !source.IsValid() {
				got = "none"
			}
			if !strings.Contains(got, tt.want) {
				t.Fatalf("ReadHeader = %s, want %s", got, tt.want)
			}
			if rest, _ := io.ReadAll(r); err == nil && string(rest) != "GET /" {
				t.Errorf("behind the header is %q, want the request", rest)
			}
		})
	}
}

// listen accepts connections as the policy says, and hands them on with what
// was refused.
func listen(t *testing.T, trusted ...string) (addr string, conns chan net.Conn, refused chan error) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	policy := mustPolicy(t, "", trusted...)
	conns, refused = make(chan net.Conn, 8), make(chan error, 8)
	l := clientaddr.NewListener(raw, func() *clientaddr.Policy { return policy }, func(_ net.Addr, err error) { refused <- err })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return raw.Addr().String(), conns, refused
}

func mustSend(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSlowProxyHeaderDelaysNobody(t *testing.T) {
	addr, conns, _ := listen(t, "127.0.0.1")
	mustSend(t, addr, "PROXY TCP4 192.") // never ends
	mustSend(t, addr, "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\nhello")
	select {
	case c := <-conns:
		defer c.Close()
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" || c.RemoteAddr().String() != "192.0.2.1:1" {
			t.Errorf("connection of %s says %q, %v; want hello from 192.0.2.1:1", c.RemoteAddr(), b, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the second connection was not accepted")
	}
}

func TestProxyHeaderOfAnUntrustedPeerStaysUnread(t *testing.T) {
	addr, conns, _ := listen(t, "10.0.0.1")
	const text = "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n"
	mustSend(t, addr, text)
	c := waittest.Receive(t, conns, "the connection")
	defer c.Close()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		t.Errorf("read %q, %v; want the header itself", b, err)
	}
	if host, _, _ := net.SplitHostPort(c.RemoteAddr().String()); host != "127.0.0.1" {
		t.Errorf("peer = %s, want 127.0.0.1", host)
	}
}

func TestConnectionWithoutItsProxyHeaderIsClosed(t *testing.T) {
	addr, _, refused := listen(t, "127.0.0.1")
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", version2(0x31, 0x11, "")} {
		c := mustSend(t, addr, text)
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q: the connection stays open: %v", text, err)
		}
		if err := waittest.Receive(t, refused, "the report"); err == nil {
			t.Errorf("%q was not reported", text)
		}
	}
}

func FuzzProxyHeader(f *testing.F) {
	for _, tt := range proxyHeaders {
		f.Add([]byte(tt.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReaderSize(strings.NewReader(string(b)), 4096)
		source, err := clientaddr.ReadHeader(r)
		if err != nil && source.IsValid() {
			t.Errorf("%q gives both %s and %v", b, source, err)
		}
		if a := source.Addr(); a.IsValid() && (a.Zone() != "" || a.Is4In6()) {
			t.Errorf("%q gives %s, want an address in its plain form", b, a)
		}
	})
}
