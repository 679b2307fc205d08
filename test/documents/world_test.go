package documents_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/storetest"
)

// adminKey is the key in the file admin.key of machines.
const adminKey = "mg-key-of-an-administrator-0123456789"

// trusted returns the authority that machines trust.
var authorityOnce sync.Once

func trusted(t *testing.T) *storetest.Authority {
	authorityOnce.Do(func() { authority = storetest.NewAuthority(t, "an authority of the tests") })
	return authority
}

// provider is one of the providers at their own addresses.
type provider struct {
	status   atomic.Int64 // of its responses; 0 for those of the simulator
	requests atomic.Int64 // that it served
	handler  http.Handler // the simulator, unless the test sets another
}

// internetOf serves providers by their hosts, until the end of the test.
func internetOf(t *testing.T, hosts ...string) map[string]*provider {
	t.Helper()
	list := map[string]*provider{}
	for _, host := range hosts {
		list[host] = &provider{handler: simulator.New(simulator.Options{})}
	}
	serveTLS(t, providers, hosts, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := list[r.Host]
		if status := p.status.Load(); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status))
			fmt.Fprint(w, `{"error": {"message": "The server is overloaded", "type": "server_error"}}`)
			return
		}
		p.requests.Add(1)
		p.handler.ServeHTTP(w, r)
	}))
	return list
}

// serveTLS serves hosts at the port 443 of an address, until the end of the test.
func serveTLS(t *testing.T, address string, hosts []string, handler http.Handler) {
	t.Helper()
	certificates := map[string]*tls.Certificate{}
	for _, host := range hosts {
		public, private := trusted(t).Issue(t, host)
		c, err := tls.X509KeyPair([]byte(public), []byte(private))
		if err != nil {
			t.Fatal(err)
		}
		certificates[host] = &c
	}
	l, err := net.Listen("tcp", address+":443")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: handler,
		TLSConfig: &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := certificates[h.ServerName]; c != nil {
				return c, nil
			}
			return nil, fmt.Errorf("%s is not served", h.ServerName)
		}},
	}
	go server.ServeTLS(l, "", "")
	t.Cleanup(func() { server.Close() })
}

// write writes a file of the machine. Files below /etc and /var are written there.
func (m *machine) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(m.home, name)
	if filepath.IsAbs(name) {
		m.run(t, "mkdir -p "+filepath.Dir(name)+"\ncat >"+name+" <<'END-OF-FILE'\n"+strings.TrimRight(text, "\n")+"\nEND-OF-FILE\n")
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve runs a gateway at https://gateway.example.com, with its data in /var/lib/modelgate.
func (m *machine) serve(t *testing.T, settings string, env ...string) {
	t.Helper()
	certificate, key := trusted(t).Issue(t, "gateway.example.com")
	m.write(t, "/etc/modelgate/gateway.pem", certificate)
	m.write(t, "/etc/modelgate/gateway.key", key)
	m.write(t, "/etc/modelgate/modelgate.yaml", "version: 1\nlistener: {tls: {certificate: /etc/modelgate/gateway.pem, key: /etc/modelgate/gateway.key}}\n"+settings)
	m.node(t, front+":443", env...)
}

// node runs a gateway at an address, with the settings that the machine has.
func (m *machine) node(t *testing.T, listen string, env ...string) {
	t.Helper()
	env = append([]string{"MODELGATE_LISTEN=" + listen, "MODELGATE_BOOTSTRAP_KEY=" + adminKey, "MODELGATE_MASTER_KEY=0123456789abcdef0123456789abcdef"}, env...)
	m.write(t, "/etc/modelgate/environment", strings.Join(env, "\n")+"\n")
	m.write(t, "admin.key", adminKey+"\n")
	m.run(t, "systemctl start modelgate")
}

// httpClient returns a client that trusts the authority of the machines and keeps no connections.
func httpClient(t *testing.T) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(trusted(t).PEM))
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
}
