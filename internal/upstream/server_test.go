package upstream_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/upstream"
)

// mustListen accepts connections on loopback and lets serve read and write them. It
// returns the address.
func mustListen(t testing.TB, serve func(conn *net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return ln.Addr().String()
}

// mustServe accepts connections on loopback, reads the head of one request
// from each and lets answer do the rest. It returns the address.
func mustServe(t testing.TB, response func(conn *net.TCPConn, r *bufio.Reader)) string {
	t.Helper()
	return mustListen(t, func(conn *net.TCPConn) {
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err == nil {
			response(conn, r)
		}
	})
}

// mustServeText answers every request with text and closes the connection.
func mustServeText(t testing.TB, text string) string {
	return mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) { io.WriteString(conn, text) })
}

func mustRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func mustRead(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	return string(b)
}

// mustFail returns the failure of err, which has to be one of kind.
func mustFail(t *testing.T, err error, kind upstream.FailureKind) *upstream.Failure {
	t.Helper()
	f, ok := errors.AsType[*upstream.Failure](err)
	if !ok || f.Kind != kind {
		t.Fatalf("got %T %v (cause %v), want a failure of kind %v", err, err, errors.Unwrap(err), kind)
	}
	return f
}

// resolver answers each look-up with the next answer, and the last one for ever.
type resolver struct {
	responses [][]string
	calls     atomic.Int32
}

func (r *resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n := int(r.calls.Add(1)) - 1
	response := r.responses[min(n, len(r.responses)-1)]
	if len(response) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	addrs := make([]netip.Addr, len(response))
	for i, a := range response {
		addrs[i] = netip.MustParseAddr(a)
	}
	return addrs, nil
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// mustCertificate makes a self-signed certificate for 127.0.0.1 that is valid
// until notAfter, and the pool that trusts it.
func mustCertificate(t *testing.T, notAfter time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provider"},
		NotBefore: notAfter.Add(-24 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, pool
}

// mustServeTLS accepts and makes handshakes; it answers nothing.
func mustServeTLS(t *testing.T, config *tls.Config) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.(*tls.Conn).Handshake()
			}()
		}
	}()
	return ln.Addr().String()
}

// mustServeGoAway speaks just enough HTTP/2 to take one request and say
// goodbye to it.
func mustServeGoAway(t *testing.T, cert tls.Certificate) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "\x00\x00\x00\x04\x00\x00\x00\x00\x00") // empty SETTINGS
		io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		head := make([]byte, 9)
		for head[3] != 1 { // until HEADERS
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		}
		// GOAWAY: the last stream is 1, PROTOCOL_ERROR, and seven bytes of text.
		io.WriteString(conn, "\x00\x00\x0f\x07\x00\x00\x00\x00\x00"+"\x00\x00\x00\x01"+"\x00\x00\x00\x01"+"pl4nted")
	}()
	return ln.Addr().String()
}
