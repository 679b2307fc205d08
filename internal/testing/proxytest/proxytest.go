// Package proxytest runs tests in a process whose environment names a proxy, which net/http reads once.
//
// The proxy is real: it opens a tunnel for CONNECT and responds itself to other requests. A
// tunnel to any host leads to one server, whose certificate the process trusts.
package proxytest

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

const variable = "MODELGATE_TEST_BEHIND_PROXY"

// Server returns the host and port of the server in the process with the proxy, and empty outside of it.
func Server() string { return os.Getenv(variable) }

// Run runs the calling test again in a process with a proxy, for all hosts but those that end in
// .internal. It returns the requests that the proxy got, such as "CONNECT example.com:443". The
// certificate of the server must be for the hosts that the test asks. A failure there is one of t.
func Run(t *testing.T, server *httptest.Server) (requests []string) {
	t.Helper()
	p := &proxy{to: server.Listener.Addr().String()}
	s := httptest.NewServer(p)
	defer s.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "HTTPS_PROXY="+s.URL, "HTTP_PROXY="+s.URL, "NO_PROXY=.internal",
		"https_proxy=", "http_proxy=", "no_proxy=", "SSL_CERT_FILE="+authority, "SSL_CERT_DIR="+t.TempDir(), variable+"="+p.to)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("behind the proxy: %v\n%s", err, out)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// proxy opens tunnels to one server.
type proxy struct {
	to string

	mu       sync.Mutex
	requests []string // guarded by mu
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.Method+" "+r.Host)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		io.WriteString(w, "proxied "+r.Host)
		return
	}
	to, err := new(net.Dialer).DialContext(r.Context(), "tcp", p.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		to.Close()
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { io.Copy(to, conn); to.Close() }()
	io.Copy(conn, to)
	conn.Close()
}
