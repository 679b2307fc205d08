package dataplane_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/upstream"
)

const providerFixtures = "../provider/table/testdata"

// fixture is a file of the provider fixtures; their README says what its parts
// are and how they are compared.
type fixture struct {
	name   string
	config struct {
		Slug       string            `json:"slug"`
		Provider   string            `json:"provider"`
		APIKey     string            `json:"api_key"`
		CustomHost string            `json:"custom_host"`
		Options    map[string]string `json:"options"`
	}
	request, upstream, upstreamResponse, response message
}

// message is one section of a fixture.
type message struct {
	first  string // method and address, or status
	header http.Header
	body   []byte
}

func (m message) address() (method, address string) {
	method, address, _ = strings.Cut(m.first, " ")
	return method, address
}

// The provider's real address is kept: the gateway's connections alone are led
// to a server of the test, so that what it makes of an address is seen whole.
func TestProviderFixturesGoThroughTheWholeGateway(t *testing.T) {
	t.Parallel()
	fixtures := mustFixtures(t)
	rec := newEveryProvider(t, fixtures)
	n := 0
	for _, round := range rounds(fixtures) {
		g := gatewaytest.New(t, gatewaytest.Options{Managed: entries(round), Reach: rec.reach()})
		for _, f := range round {
			n++
			t.Run(f.name, func(t *testing.T) { f.run(t, g, rec) })
		}
	}
	t.Logf("%d fixtures", n)
	if n < 119 {
		t.Errorf("%d fixtures were run, want all of at least 119", n)
	}
}

func (f *fixture) run(t *testing.T, g *gatewaytest.Gateway, rec *everyProvider) {
	rec.serve(f.upstreamResponse)
	method, path := f.request.address()
	req, err := http.NewRequestWithContext(t.Context(), method, g.Root+path, bytes.NewReader(f.request.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = f.request.header.Clone()
	req.Header.Set("X-Gateway-Api-Key", gatewaytest.Key)
	res := g.Do(req)

	got := rec.taken(t, res)
	if got.first != f.upstream.first {
		t.Errorf("address at the provider\n got %s\nwant %s", got.first, f.upstream.first)
	}
	compareHeader(t, "at the provider", f.upstream.header, got.header)
	for name := range got.header {
		_, wanted := f.upstream.header[name]
		if !wanted && (carriesCredentials(name) || strings.HasPrefix(name, "X-Gateway-")) {
			t.Errorf("header at the provider: %s, want none", name)
		}
	}
	compareBody(t, "at the provider", "application/json", f.upstream.body, got.body)

	if strconv.Itoa(res.Status) != f.response.first || res.Err != nil {
		t.Fatalf("status %d, end %v, want %s: %s", res.Status, res.Err, f.response.first, res.Body)
	}
	compareHeader(t, "at the client", f.response.header, res.Header)
	if v, said := res.Header["X-Gateway-Params"]; said && f.response.header.Get("X-Gateway-Params") == "" {
		t.Errorf("X-Gateway-Params: %s, want nothing announced", v)
	}
	compareBody(t, "at the client", f.response.header.Get("Content-Type"), f.response.body, res.Body)
}

func compareHeader(t *testing.T, where string, want, got http.Header) {
	t.Helper()
	for name, v := range want {
		if _, there := got[name]; !there || v[0] != "*" && !slices.Equal(v, got[name]) {
			t.Errorf("header %s: %s: %q, want %q", where, name, got[name], v)
		}
	}
}

func compareBody(t *testing.T, where, contentType string, want, got []byte) {
	t.Helper()
	read := jsonValue
	if contentType == "text/event-stream" {
		read = streamEvents
	}
	wanted, arrived := read(t, want), read(t, got)
	if w, ok := wanted.(map[string]any); ok && w["id"] == "*" {
		if a, ok := arrived.(map[string]any); ok && a["id"] != "" {
			w["id"] = a["id"]
		}
	}
	if diff := cmp.Diff(wanted, arrived); diff != "" {
		t.Errorf("body %s (-want +got):\n%s", where, diff)
	}
}

// jsonValue decodes a body with numbers as they are spelled.
func jsonValue(t *testing.T, body []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("body %.300q: %v", body, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("body %.300q: more than one value", body)
	}
	return v
}

// streamEvents lists the events of a stream as name and data.
func streamEvents(_ *testing.T, body []byte) any {
	var events []string
	for block := range strings.SplitSeq(string(body), "\n\n") {
		var name string
		var data []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			if v, ok := strings.CutPrefix(line, "event:"); ok {
				name = strings.TrimPrefix(v, " ")
			}
			if v, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(v, " "))
			}
		}
		if data != nil {
			events = append(events, name+": "+strings.Join(data, "\n"))
		}
	}
	return events
}

// carriesCredentials reports whether any row sends a credential in the header.
func carriesCredentials(name string) bool {
	return name == "Authorization" || name == "Api-Key" || name == "X-Api-Key" || name == "Cookie" ||
		slices.ContainsFunc(table.All(), func(s *provider.Spec) bool { return s.Auth.Header == name })
}

// rounds parts fixtures so that no slug is duplicated in a round.
func rounds(fixtures []*fixture) [][]*fixture {
	var out [][]*fixture
	seen := map[string]int{}
	for _, f := range fixtures {
		n := seen[f.config.Slug]
		seen[f.config.Slug]++
		if n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], f)
	}
	return out
}

func entries(fixtures []*fixture) []snapshot.ManagedProvider {
	list := make([]snapshot.ManagedProvider, len(fixtures))
	for i, f := range fixtures {
		list[i] = snapshot.ManagedProvider{Slug: f.config.Slug, Provider: f.config.Provider, Settings: provider.Settings{
			Key: secret.New(f.config.APIKey), CustomHost: f.config.CustomHost, Options: f.config.Options}}
	}
	return list
}

func mustFixtures(t *testing.T) []*fixture {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(providerFixtures, "*", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures in %s: %v", providerFixtures, err)
	}
	list := make([]*fixture, len(files))
	for i, file := range files {
		list[i] = mustFixture(t, file)
	}
	return list
}

func mustFixture(t *testing.T, file string) *fixture {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil || len(a.Files) != 5 {
		t.Fatalf("%s: %d sections, want 5 (%v)", file, len(a.Files), err)
	}
	dir, name := filepath.Split(file)
	f := &fixture{name: filepath.Base(dir) + "/" + strings.TrimSuffix(name, ".txtar")}
	if err := json.Unmarshal(a.Files[0].Data, &f.config); err != nil {
		t.Fatalf("%s: config: %v", file, err)
	}
	for i, m := range []*message{&f.request, &f.upstream, &f.upstreamResponse, &f.response} {
		if *m, err = readMessage(a.Files[i+1].Data); err != nil {
			t.Fatalf("%s: %s: %v", file, a.Files[i+1].Name, err)
		}
	}
	return f
}

func readMessage(data []byte) (m message, err error) {
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(data)))
	if m.first, err = r.ReadLine(); err != nil {
		return m, err
	}
	h, err := r.ReadMIMEHeader()
	if err != nil {
		return m, err
	}
	m.header = http.Header(h)
	m.body, err = io.ReadAll(r.R)
	return m, err
}

// everyProvider plays every provider at once: it answers at all of their addresses,
// with and without TLS, and keeps what it got.
type everyProvider struct {
	tls, plain *httptest.Server
	roots      *x509.CertPool
	response   atomic.Pointer[message]
	got        chan message
}

func newEveryProvider(t *testing.T, fixtures []*fixture) *everyProvider {
	r := &everyProvider{got: make(chan message, 8)}
	cert, roots := mustCertificate(t, hosts(t, fixtures))
	r.roots = roots
	r.plain = httptest.NewServer(r)
	t.Cleanup(r.plain.Close)
	r.tls = httptest.NewUnstartedServer(r)
	r.tls.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	r.tls.EnableHTTP2 = true
	r.tls.StartTLS()
	t.Cleanup(r.tls.Close)
	return r
}

// reach leads all connections of a gateway to r. Names have a public address.
// Custom hosts of fixtures end in a suffix that the guard keeps for private
// networks, so they have to be trusted.
func (r *everyProvider) reach() upstream.Options {
	return upstream.Options{
		TrustedHosts: []string{"*.example.test"},
		RootCAs:      r.roots,
		Resolver:     publicAddress{},
		Proxy:        func(*http.Request) (*url.URL, error) { return nil, nil },
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := r.plain
			if strings.HasSuffix(addr, ":443") {
				to = r.tls
			}
			return new(net.Dialer).DialContext(ctx, network, to.Listener.Addr().String())
		},
	}
}

type publicAddress struct{}

func (publicAddress) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

func (r *everyProvider) serve(m message) { r.response.Store(&m) }

// taken returns the one request that came.
func (r *everyProvider) taken(t *testing.T, res gatewaytest.Response) message {
	t.Helper()
	if len(r.got) != 1 {
		t.Fatalf("%d requests came to the provider, want 1; the client got %d: %s", len(r.got), res.Status, res.Body)
	}
	return receive(t, r.got, "the request at the provider")
}

func (r *everyProvider) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		body = []byte(err.Error())
	}
	scheme := "http://"
	if req.TLS != nil {
		scheme = "https://"
	}
	r.got <- message{req.Method + " " + scheme + req.Host + req.RequestURI, req.Header, body}
	response := r.response.Load()
	maps.Copy(w.Header(), response.header)
	status, err := strconv.Atoi(response.first)
	if err != nil {
		panic(fmt.Sprintf("status of a fixture: %v", err))
	}
	w.WriteHeader(status)
	w.Write(response.body)
}

// hosts lists the names of all providers' addresses.
func hosts(t *testing.T, fixtures []*fixture) []string {
	t.Helper()
	var names []string
	for _, f := range fixtures {
		_, address := f.upstream.address()
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, u.Hostname())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mustCertificate makes a certificate for names and the pool that trusts it.
func mustCertificate(t *testing.T, names []string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		DNSNames:              names,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}
