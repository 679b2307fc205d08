package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// internet is what a gateway takes for the net: a proxy that responds instead
// of every host, with an authority that the gateway is configured to trust. It
// shows addresses as the gateway makes them.
type internet struct {
	*provider
	env []string // of a gateway that lives in it

	mu    sync.Mutex
	hosts map[string]behaviour // guarded by mu; those that are not there answer 404
}

// newInternet starts one whose hosts answer like this. A name may begin with *.
func newInternet(t *testing.T, hosts map[string]behaviour) *internet {
	t.Helper()
	n := &internet{hosts: hosts}
	authority, file := newAuthority(t)
	conns := &queue{c: make(chan net.Conn), done: make(chan struct{})}
	var srv *httptest.Server
	n.provider, srv = serveOn(conns, func(w http.ResponseWriter, r *http.Request, in received) {
		n.find(r.Host)(w, r, in)
	})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "this proxy takes CONNECT alone", http.StatusMethodNotAllowed)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("taking over a connection: %v", err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		conns.put(tls.Server(conn, authority))
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		conns.Close()
		srv.Close()
		proxy.CloseClientConnections()
		proxy.Close()
	})
	n.env = []string{"HTTPS_PROXY=" + proxy.URL, "https_proxy=", "NO_PROXY=", "no_proxy=", "SSL_CERT_FILE=" + file, "SSL_CERT_DIR=" + t.TempDir()}
	return n
}

func (n *internet) find(host string) behaviour {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, say := range n.hosts {
		if end, ok := strings.CutPrefix(name, "*"); name == host || ok && strings.HasSuffix(host, end) {
			return say
		}
	}
	return says(http.StatusNotFound, "application/json", `{"error":"no such host in this net"}`)
}

// asked returns the requests that came to a host, and forgets all of them.
func (n *internet) asked(t *testing.T, host string) []received {
	t.Helper()
	var list []received
	for _, in := range n.requests() {
		if got, _ := in.line("Host"); got == host {
			list = append(list, in)
		}
	}
	return list
}

// one returns the one request that came to a host.
func (n *internet) one(t *testing.T, host string) received {
	t.Helper()
	list := n.asked(t, host)
	if len(list) != 1 {
		var all []string
		for _, in := range n.requests() {
			name, _ := in.line("Host")
			all = append(all, in.method+" "+name+in.uri)
		}
		t.Fatalf("%d requests came to %s, want 1; all: %q", len(list), host, all)
	}
	return list[0]
}

// newAuthority returns what certifies each host that is asked for, and the file
// with the certificate to trust.
func newAuthority(t *testing.T) (*tls.Config, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certify := func(template *x509.Certificate) []byte {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		parent := &x509.Certificate{Subject: pkix.Name{CommonName: "conformance"}}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, key)
		if err != nil {
			t.Error(err)
		}
		return der
	}
	root := certify(&x509.Certificate{Subject: pkix.Name{CommonName: "conformance"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		der := certify(&x509.Certificate{Subject: pkix.Name{CommonName: "host"}, DNSNames: []string{hello.ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}}, file
}

// queue is a listener of connections that came another way.
type queue struct {
	c    chan net.Conn
	once sync.Once
	done chan struct{}
}

func (q *queue) put(c net.Conn) {
	select {
	case q.c <- c:
	case <-q.done:
		c.Close()
	}
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.c:
		return c, nil
	case <-q.done:
		return nil, errors.New("the net is closed")
	}
}

// Close implements net.Listener.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

// Addr implements net.Listener.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// live starts a gateway in n, with the settings of its providers.
func (n *internet) live(t *testing.T, settings string) *gateway {
	t.Helper()
	if settings == "" {
		settings = "version: 1\n"
	}
	return launchFor(t, settings, n.env...)
}
