package oauth_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/oauth"
	wire "modelgate/internal/identity/oauth"
	"modelgate/internal/testing/routetest"
	"modelgate/internal/upstream"
)

// newFetchWorld is a world whose gateway fetches documents with the client that it sends requests
// to providers with. The server counts its requests.
func newFetchWorld(t *testing.T, trusted bool) (w *codeWorld, server *httptest.Server, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusFound)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Write([]byte(`{"client_id":"` + "https://" + r.Host + r.URL.RequestURI() + `","client_name":"Editor","redirect_uris":["` + callback + `"]}`))
	}))
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	o := upstream.Options{RootCAs: pool}
	if trusted {
		o.TrustedHosts = []string{"127.0.0.1"}
	}
	client := upstream.New(o)
	t.Cleanup(client.Close)
	w = &codeWorld{world: &world{t: t}}
	w.Bench = routetest.New(t, controlplane.Families{OAuth: oauth.Routes{Documents: wire.NewDocuments(client)}}.Add)
	w.signInOwner()
	return w, server, asked
}

// TestDocumentsAreNoWayIntoTheNetwork: a client id is an address that anybody chooses.
func TestDocumentsAreNoWayIntoTheNetwork(t *testing.T) {
	w, server, asked := newFetchWorld(t, false)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{
		server.URL + "/mcp.json", "https://localhost:" + u.Port() + "/mcp.json", "https://[::ffff:127.0.0.1]:" + u.Port() + "/mcp.json",
		"https://0x7f000001:" + u.Port() + "/mcp.json", "https://2130706433:" + u.Port() + "/mcp.json", "https://0.0.0.0:" + u.Port() + "/mcp.json",
		"https://169.254.169.254/latest", "https://10.0.0.1/mcp.json", "https://[fd00::1]/mcp.json", "https://metadata.google.internal/x",
	} {
		if a, _ := w.ask(w.owner, request("client_id", id)); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", id, a.Status, a.Body)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a private address got %d requests", n)
	}
}

func TestRedirectsOfDocumentsAreNotFollowed(t *testing.T) {
	w, server, asked := newFetchWorld(t, true)
	if a, got := w.ask(w.owner, request("client_id", server.URL+"/mcp.json")); a.Status != http.StatusOK || got.Client.Name != "Editor" {
		t.Fatalf("a document: %d %s", a.Status, a.Body)
	}
	before := asked.Load()
	id := server.URL + "/x?to=" + url.QueryEscape(server.URL+"/mcp.json")
	if a, _ := w.ask(w.owner, request("client_id", id)); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "redirects") || asked.Load() != before+1 {
		t.Errorf("a redirect: %d %s, %d requests", a.Status, a.Body, asked.Load()-before)
	}
	w.API.Egress = func(string, string) *egress.Policies {
		return &egress.Policies{Organisation: &egress.Policy{CustomHosts: egress.Hosts{"https://*.example.org"}}}
	}
	before = asked.Load()
	if a, _ := w.ask(w.owner, request("client_id", server.URL+"/mcp.json")); a.Status != http.StatusBadRequest || asked.Load() != before {
		t.Errorf("an address outside of the egress policy: %d %s", a.Status, a.Body)
	}
}
