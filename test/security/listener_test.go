package security

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// issuer signs certificates of the suite.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.pem, _, i.cert, i.key = sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "issuer"}}, nil)
	return i
}

// sign returns a certificate and its key in PEM. A nil issuer signs itself.
func sign(t *testing.T, c *x509.Certificate, by *issuer) (cert, key []byte, parsed *x509.Certificate, private *ecdsa.PrivateKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, private
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &private.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, _ = x509.ParseCertificate(der)
	raw, _ := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), parsed, private
}

// server returns a certificate for 127.0.0.1.
func (i *issuer) server(t *testing.T, name string) (cert, key []byte) {
	cert, key, _, _ = sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, i)
	return cert, key
}

// client returns a certificate of a client.
func (i *issuer) client(t *testing.T) *tls.Certificate {
	cert, key, _, _ := sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, i)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// pool trusts the issuer.
func (i *issuer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(i.cert)
	return p
}

// tlsFiles are the files of a gateway with TLS.
type tlsFiles struct{ dir string }

func (f tlsFiles) path(name string) string { return filepath.Join(f.dir, name) }

func (f tlsFiles) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// settings is the section of modelgate.yaml.
func (f tlsFiles) settings(more string) string {
	return fmt.Sprintf("version: 1\nlistener:\n  tls: {certificate: %q, key: %q%s}\n", f.path("cert.pem"), f.path("key.pem"), more)
}

// https asks GET /v1/auth/me with the root key and reports the common name of the
// gateway's certificate.
func (g *gateway) https(config *tls.Config) (status int, name string, err error) {
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}, Timeout: patience}
	req, _ := http.NewRequest("GET", g.url+"/auth/me", nil)
	req.Header.Set("x-gateway-api-key", rootKey)
	res, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	return res.StatusCode, res.TLS.PeerCertificates[0].Subject.CommonName, nil
}

func TestTLSOfTheListener(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	f := tlsFiles{t.TempDir()}
	cert, key := ca.server(t, "first")
	f.write(t, "cert.pem", cert)
	f.write(t, "key.pem", key)
	g := launch(t, options{settings: f.settings("")})
	trust := &tls.Config{RootCAs: ca.pool()}
	name := func() string {
		_, name, err := g.https(trust)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}

	attack(t, "credential theft", "TLS: keys are not sent in the clear", func(t *testing.T) {
		if got, _ := plain(t, g, "GET /v1/auth/me HTTP/1.1\r\nHost: a\r\nx-gateway-api-key: "+rootKey+"\r\n\r\n"); strings.Contains(got, "200 OK") {
			t.Errorf("a request without TLS was answered: %.200q", got)
		}
		if got := name(); got != "first" {
			t.Errorf("certificate of %q, want first", got)
		}
	})
	attack(t, "credential theft", "TLS: old versions are refused", func(t *testing.T) {
		if _, _, err := g.https(&tls.Config{RootCAs: ca.pool(), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
			t.Error("TLS 1.1 was accepted")
		}
	})
	attack(t, "smuggling", "TLS: HTTP/2 works and says so", func(t *testing.T) {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(g.root, "https://"), &tls.Config{RootCAs: ca.pool(), NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if p := conn.ConnectionState().NegotiatedProtocol; p != "h2" {
			t.Errorf("protocol %q, want h2", p)
		}
	})
	open, err := tls.Dial("tcp", strings.TrimPrefix(g.root, "https://"), &tls.Config{RootCAs: ca.pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	attack(t, "exhaustion", "TLS: a broken new pair keeps the old one", func(t *testing.T) {
		second, _ := ca.server(t, "second")
		f.write(t, "cert.pem", second) // the key is still that of the first
		waittest.Until(t, "the broken pair is reported", func() bool { return strings.Contains(g.metric(t, "modelgate_tls_ok"), " 0") })
		if got := name(); got != "first" {
			t.Errorf("certificate of %q, want first", got)
		}
		if !strings.Contains(g.output.String(), "TLS files not reloaded") {
			t.Error("the log does not say so")
		}
	})
	attack(t, "credential theft", "TLS: a renewed certificate is served without a new start", func(t *testing.T) {
		cert, key := ca.server(t, "third")
		f.write(t, "cert.pem", cert)
		f.write(t, "key.pem", key)
		waittest.Until(t, "the new certificate is served", func() bool { return name() == "third" })
		io.WriteString(open, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(open), nil); err != nil || res.StatusCode != 200 {
			t.Errorf("a connection of before the change was dropped: %v", err)
		}
	})
	attack(t, "exhaustion", "TLS: failed handshakes are counted", func(t *testing.T) {
		plain(t, g, "this is not a handshake, but long enough to be read as one\r\n\r\n")
		waittest.Until(t, "the handshake is counted", func() bool {
			return strings.Contains(g.metric(t, `modelgate_connections_refused_total{reason="tls"}`), "}")
		})
	})
	attack(t, "exhaustion", "TLS: a start with a broken pair is refused", func(t *testing.T) {
		bad := tlsFiles{t.TempDir()}
		bad.write(t, "cert.pem", cert)
		bad.write(t, "key.pem", []byte("no key"))
		if _, err := newGateway(options{settings: bad.settings("")}); err == nil || !strings.Contains(err.Error(), "listener.tls") {
			t.Errorf("start = %v, want an error that names listener.tls", err)
		}
	})
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, clients, others := newIssuer(t), newIssuer(t), newIssuer(t)
	for _, tt := range []struct {
		mode, name string
		cert       *tls.Certificate
		want       bool
	}{
		{"require", "none", nil, false},
		{"require", "of another issuer", others.client(t), false},
		{"require", "of the gateway's own issuer", ca.client(t), false},
		{"require", "of the listed issuer", clients.client(t), true},
		{"request", "none", nil, true},
		{"request", "of another issuer", others.client(t), false},
		{"request", "of the listed issuer", clients.client(t), true},
	} {
		attack(t, "credential theft", "client certificates, "+tt.mode+": "+tt.name, func(t *testing.T) {
			f := tlsFiles{t.TempDir()}
			cert, key := ca.server(t, "gateway")
			f.write(t, "cert.pem", cert)
			f.write(t, "key.pem", key)
			f.write(t, "ca.pem", clients.pem)
			g := launch(t, options{settings: f.settings(fmt.Sprintf(", client_ca: %q, client_auth: %s", f.path("ca.pem"), tt.mode))})
			config := &tls.Config{RootCAs: ca.pool()}
			if tt.cert != nil { // also where the gateway does not list its issuer
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.cert, nil }
			}
			status, _, err := g.https(config)
			if got := err == nil && status == 200; got != tt.want {
				t.Errorf("served: %t (status %d, %v), want %t", got, status, err, tt.want)
			}
		})
	}
}

// plain sends bytes without TLS to a gateway with it.
func plain(t *testing.T, g *gateway, text string) (string, bool) {
	bare := *g
	bare.root = "http://" + strings.TrimPrefix(g.root, "https://")
	return bare.raw(t, text)
}

// metric returns the line of a metric that begins with the prefix, empty when
// there is none.
func (g *gateway) metric(t *testing.T, prefix string, header ...string) string {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", g.admin+"/metrics", nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func TestAdminListenerNeedsItsToken(t *testing.T) {
	t.Parallel()
	const token = "an admin token of the suite"
	g := launch(t, options{env: []string{"MODELGATE_ADMIN_TOKEN=" + token}})
	get := func(t *testing.T, path, authorization string) response {
		admin := *g
		admin.root = g.admin
		if authorization == "" {
			return admin.do(t, "GET", path, "")
		}
		return admin.do(t, "GET", path, "", "Authorization", authorization)
	}
	for _, tt := range []struct {
		name, path, authorization string
		status                    int
	}{
		{"metrics without a token", "/metrics", "", 401},
		{"metrics with another token", "/metrics", "Bearer another token of the suite", 401},
		{"metrics with the beginning of the token", "/metrics", "Bearer " + token[:10], 401},
		{"metrics with the token as a password", "/metrics", "Basic " + token, 401},
		{"metrics with a gateway key", "/metrics", "Bearer " + rootKey, 401},
		{"metrics with the token", "/metrics", "Bearer " + token, 200},
		{"prices without a token", "/prices", "", 401},
		{"prices with another token", "/prices", "Bearer another token of the suite", 401},
		{"prices with the token", "/prices", "Bearer " + token, 200},
		{"health without a token", "/health", "", 200},
		{"readiness without a token", "/ready", "", 200},
	} {
		attack(t, "credential theft", "admin listener: "+tt.name, func(t *testing.T) {
			r := get(t, tt.path, tt.authorization)
			if r.status != tt.status {
				t.Fatalf("status %d, want %d: %.200s", r.status, tt.status, r.body)
			}
			if tt.status == 401 {
				r.refused(t, 401, "MODELGATE_ADMIN_TOKEN", "invalid_admin_token")
			}
			if strings.Contains(string(r.body), token) {
				t.Error("the response holds the token")
			}
		})
	}
	attack(t, "credential theft", "admin listener: refusals are counted", func(t *testing.T) {
		if got := g.metric(t, "modelgate_admin_refused_total", "Authorization", "Bearer "+token); !strings.HasSuffix(got, " 7") {
			t.Errorf("%q, want 7 refusals", got)
		}
		if strings.Contains(g.output.String(), token) {
			t.Error("the process log holds the token")
		}
	})
}

func TestAdminListenerOnAPublicAddressNeedsAToken(t *testing.T) {
	t.Parallel()
	const token = "an admin token of the suite"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		o    options
		want string // of the error; empty for a start
	}{
		{"every address", options{flags: []string{"--admin-listen", "0.0.0.0:0"}}, "has no token"},
		{"every address, written short", options{flags: []string{"--admin-listen", ":0"}}, "has no token"},
		{"every address of IPv6", options{flags: []string{"--admin-listen", "[::]:0"}}, "has no token"},
		{"every address with a short token", options{flags: []string{"--admin-listen", "0.0.0.0:0"}, env: []string{"MODELGATE_ADMIN_TOKEN=short"}}, "use at least 16"},
		{"every address with an empty file", options{flags: []string{"--admin-listen", "0.0.0.0:0", "--admin-token-file", os.DevNull}}, "reading the admin token"},
		{"every address with a token in a file", options{flags: []string{"--admin-listen", "0.0.0.0:0", "--admin-token-file", file}}, ""},
		{"this machine by name", options{flags: []string{"--admin-listen", "localhost:0"}}, ""},
	} {
		attack(t, "credential theft", "admin listener: "+tt.name, func(t *testing.T) {
			if tt.want == "" {
				launch(t, tt.o)
				return
			}
			if _, err := newGateway(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("start = %v, want %q", err, tt.want)
			}
		})
	}
}

// The audit log shows which address the gateway takes for the client's.
func TestClientsCannotForgeTheirAddress(t *testing.T) {
	t.Parallel()
	const forged = "203.0.113.7"
	for _, tt := range []struct{ name, settings, want string }{
		{"no proxy is trusted", "version: 1\n", "127.0.0.1"},
		{"another proxy is trusted", "listener: {trusted_proxies: [10.0.0.0/8]}\n", "127.0.0.1"},
		{"the proxy is trusted", "listener: {trusted_proxies: [127.0.0.1]}\n", "198.51.100.2"},
		{"the proxy writes Forwarded", "listener: {trusted_proxies: [127.0.0.1], client_header: Forwarded}\n", "198.51.100.9"},
	} {
		g := launch(t, options{settings: tt.settings})
		for i, header := range [][]string{
			{"X-Forwarded-For", forged + ", 198.51.100.2", "Forwarded", "for=" + forged + ", for=198.51.100.9"},
			{"X-Forwarded-For", forged, "X-Forwarded-For", "198.51.100.2", "Forwarded", `for="` + forged, "Forwarded", "for=198.51.100.9"},
			{"X-Forwarded-For", "garbage, " + forged + ", 198.51.100.2", "Forwarded", "for=unknown, for=198.51.100.9", "X-Real-Ip", forged, "True-Client-Ip", forged},
		} {
			attack(t, "injection", fmt.Sprintf("client's address, %s: headers %d", tt.name, i), func(t *testing.T) {
				id := g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"c%d","workspace_id":"default","config":{"retry":{"attempts":1}}}`, i), header...).ok(t).text(t, "data.id")
				count := func(ip string) int {
					return strings.Count(string(g.as(t, rootKey, "GET", "/v1/audit-logs?resource_type=config&client_ip="+ip+"&"+today(), "").ok(t).body), `"client_ip":`)
				}
				waittest.Until(t, "the change is in the audit log with the address "+tt.want, func() bool { return id != "" && count(tt.want) > i })
				if n := count(forged); n > 0 {
					t.Errorf("%d changes have the forged address", n)
				}
			})
		}
	}
}

// today is the time that a listing of the audit log has to name.
func today() string {
	now := time.Now().UTC()
	return "start_time=" + now.Add(-time.Hour).Format(time.RFC3339) + "&end_time=" + now.Add(time.Hour).Format(time.RFC3339)
}

func TestProxyProtocolIsReadFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	const me = "GET /v1/auth/me HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx-gateway-api-key: " + rootKey + "\r\n\r\n"
	const header = "PROXY TCP4 203.0.113.7 10.0.0.1 4000 443\r\n"
	trusted := launch(t, options{settings: "listener: {trusted_proxies: [127.0.0.1], proxy_protocol: true}\n"})
	untrusted := launch(t, options{settings: "listener: {trusted_proxies: [10.0.0.1], proxy_protocol: true}\n"})
	for _, tt := range []struct {
		name, text string
		g          *gateway
		want       string // of the response; empty for a closed connection
	}{
		{"with a header", header + me, trusted, "200 OK"},
		{"without a header", me, trusted, ""},
		{"with a malformed header", "PROXY TCP4 x\r\n" + me, trusted, ""},
		{"with a header without end", "PROXY " + strings.Repeat("A", 4096), trusted, ""},
		{"with two headers", header + header + me, trusted, "400 Bad Request"},
		{"with a large version 2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + me, trusted, ""},
		{"from an untrusted peer", header + me, untrusted, "400 Bad Request"},
		{"from an untrusted peer without a header", me, untrusted, "200 OK"},
	} {
		attack(t, "smuggling", "PROXY protocol "+tt.name, func(t *testing.T) {
			got, closed := tt.g.raw(t, tt.text)
			if tt.want == "" && (got != "" || !closed) || !strings.Contains(got, tt.want) {
				t.Errorf("received %.200q (closed %t), want %q", got, closed, tt.want)
			}
		})
	}
	attack(t, "exhaustion", "PROXY protocol: many connections without their header", func(t *testing.T) {
		for range 200 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(trusted.root, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, "PROXY TCP4")
		}
		if got, _ := trusted.raw(t, header+me); !strings.Contains(got, "200 OK") {
			t.Errorf("a complete connection was not served: %.200q", got)
		}
		waittest.Until(t, "connections without a header are counted", func() bool {
			return trusted.metric(t, `modelgate_connections_refused_total{reason="proxy_header"}`) != ""
		})
	})
}
