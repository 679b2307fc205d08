// Package gatewaytest runs a complete gateway in a test.
//
// [New] starts the real server on loopback with a temporary data folder and
// the simulator as its provider, and ends both with the test. Only
// the provider is faked.
package gatewaytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/server"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/upstream"
)

// Key is the gateway key of every gateway of this package, and SimulatorKey
// the credential that its simulator wants.
const (
	Key          = "mg-gatewaytest-key-0123456789abcdef"
	SimulatorKey = "sim-gatewaytest-key"
)

// Options changes what New starts. The zero value is a gateway with the managed
// provider @simulator and no settings file.
type Options struct {
	// Settings is the content of modelgate.yaml. SIMULATOR in it stands for the
	// simulator's base URL, and SIMULATOR_ROOT for the same without /v1. Empty reads no file.
	Settings string
	// Upstream replaces the simulator.
	Upstream http.Handler
	// Simulator configures the simulator. Its Key is set.
	Simulator recorder.Options
	// Managed are managed providers in addition to @simulator.
	Managed []snapshot.ManagedProvider
	// Specs are provider definitions in addition to the table. One with an id of the table
	// replaces it.
	Specs []*provider.Spec
	// Reach is how the gateway reaches providers.
	Reach upstream.Options
	// PriceFiles says where price files are read.
	PriceFiles server.PriceFiles
	// NoKey starts without the bootstrap key, as a first start does.
	NoKey bool
	// MasterKey opens sealed credentials.
	MasterKey string
	// DeploymentSecret is that of the deployment that it belongs to.
	DeploymentSecret string
	// Data is the data folder. Empty makes a temporary one.
	Data string
	// Database is the control plane's. Empty is a file in the data folder.
	Database string
	// Tools serves the requests to tool servers. Nil has none.
	Tools dataplane.Tools
	// Off are features that are turned off.
	Off route.DisabledFeatures
	// Time is the clock of price files and of the lifetimes of cached responses. Nil
	// is time.Now.
	Time func() time.Time
}

// Gateway is a running gateway.
type Gateway struct {
	URL      string // base URL, ends in /v1
	Root     string // the same without /v1
	AdminURL string
	Upstream string // base URL of the provider, ends in /v1
	Sim      *recorder.Recorder
	Server   *server.Server
	Settings string // path of modelgate.yaml, empty when there is none
	Log      *Buffer

	t        testing.TB
	database string // address of the control plane's
	reader   string // key that sees requests without a valid key; made when it is needed
	now      chan struct{}
	end      *end
}

// end ends a gateway. It holds nothing of it: a test's functions for its end stay in
// memory until all tests that run in parallel are over, with what they hold.
type end struct {
	t     testing.TB
	drain context.CancelFunc
	done  chan error
}

// New starts a gateway that ends with t.
func New(t testing.TB, o Options) *Gateway {
	t.Helper()
	g := &Gateway{t: t, Log: new(Buffer), now: make(chan struct{})}
	handler := o.Upstream
	if handler == nil {
		o.Simulator.Key = SimulatorKey
		g.Sim = recorder.New(o.Simulator)
		handler = g.Sim
	}
	up := httptest.NewServer(handler)
	t.Cleanup(func() {
		up.Close()
		up.Config.Handler = nil // see end
	})
	g.Upstream = up.URL + "/v1"
	if o.Data == "" {
		o.Data = t.TempDir()
	}
	so := server.Options{
		Data:          o.Data,
		Listen:        "127.0.0.1:0",
		AdminListen:   "127.0.0.1:0",
		TrustLoopback: true,
		Logger:        slog.New(slog.NewTextHandler(g.Log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Version:       "test",
		MasterKey:     secret.New(o.MasterKey),

		DeploymentSecret: secret.New(o.DeploymentSecret),

		Database: secret.New(o.Database),
		Off:      o.Off,
		Time:     o.Time,
		ManagedProviders: append([]snapshot.ManagedProvider{{
			Slug:     "simulator",
			Provider: "openai-compatible",
			Settings: provider.Settings{Key: secret.New(SimulatorKey), CustomHost: g.Upstream},
		}}, o.Managed...),
		Specs:    o.Specs,
		Upstream: o.Reach,

		PriceFiles: o.PriceFiles,
		Tools:      o.Tools,
	}
	if !o.NoKey {
		so.BootstrapKey = secret.New(Key)
	}
	if o.Settings != "" {
		g.Settings = filepath.Join(o.Data, "modelgate.yaml")
		so.Config = g.Settings
		g.WriteSettings(o.Settings)
	}
	g.database = cmp.Or(o.Database, "file:"+filepath.Join(o.Data, "modelgate.db"))
	storetest.Blank(t, g.database)
	s, err := server.New(t.Context(), so)
	if err != nil {
		t.Fatalf("starting the gateway: %v", err)
	}
	g.Server = s
	g.Root = "http://" + s.Addr().String()
	g.URL = g.Root + "/v1"
	g.AdminURL = "http://" + s.AdminAddr().String()
	ctx, stop := context.WithCancel(context.Background())
	g.end = &end{t: t, drain: stop, done: make(chan error, 1)}
	storetest.CheckRecorded(t, g.database)
	go func() { g.end.done <- s.Run(ctx, g.now) }()
	t.Cleanup(g.end.await)
	log := g.Log // see end
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the gateway's last log lines:\n%s", log.tail())
		}
	})
	return g
}

// WriteSettings writes the settings file; a running gateway reloads it.
func (g *Gateway) WriteSettings(text string) {
	g.t.Helper()
	text = strings.ReplaceAll(text, "SIMULATOR_ROOT", strings.TrimSuffix(g.Upstream, "/v1"))
	text = strings.ReplaceAll(text, "SIMULATOR", g.Upstream)
	if err := os.WriteFile(g.Settings, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// Drain asks the gateway to stop and does not wait for it.
func (g *Gateway) Drain() { g.end.drain() }

// Now ends a drain at once, as a second signal does. It is called once.
func (g *Gateway) Now() { close(g.now) }

// Stop drains the gateway and waits for its end. Further calls do nothing.
func (g *Gateway) Stop() {
	g.t.Helper()
	g.end.await()
}

func (e *end) await() {
	e.t.Helper()
	e.drain()
	select {
	case err, ok := <-e.done:
		if ok {
			close(e.done)
		}
		if err != nil {
			e.t.Errorf("the gateway ended with: %v", err)
		}
	case <-time.After(60 * time.Second):
		e.t.Error("the gateway did not stop within a minute")
	}
}

// Request returns a request for path below the base URL with the gateway key
// and the managed provider @simulator. Headers come on top; an empty value
// removes one.
func (g *Gateway) Request(method, path, body string, h ...string) *http.Request {
	g.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.URL+path, r)
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", Key)
	req.Header.Set("x-gateway-provider", "@simulator")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(h); i += 2 {
		if h[i+1] == "" {
			req.Header.Del(h[i])
			continue
		}
		req.Header.Set(h[i], h[i+1])
	}
	return req
}

// Response is a response, read to its end. Err is how reading its body ended, nil
// for a proper end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// responseTimeout is how long a request and its response may take on a loaded machine.
const responseTimeout = 2 * time.Minute

var errLate = fmt.Errorf("no complete response within %v", responseTimeout)

// Do sends a request and reads the response. It fails the test if that takes minutes.
func (g *Gateway) Do(req *http.Request) Response {
	g.t.Helper()
	ctx, cancel := context.WithTimeoutCause(req.Context(), responseTimeout, errLate)
	defer cancel()
	res, err := http.DefaultTransport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		g.t.Fatalf("%s %s: %v", req.Method, req.URL, cmp.Or(context.Cause(ctx), err))
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if errors.Is(context.Cause(ctx), errLate) {
		g.t.Fatalf("%s %s: %v; status %d and %d bytes came", req.Method, req.URL, errLate, res.StatusCode, len(b))
	}
	return Response{res.StatusCode, res.Header, b, err}
}

// Post sends a JSON body to path and reads the response.
func (g *Gateway) Post(path, body string, h ...string) Response {
	g.t.Helper()
	return g.Do(g.Request(http.MethodPost, path, body, h...))
}

// Get asks for path and reads the response.
func (g *Gateway) Get(path string, h ...string) Response {
	g.t.Helper()
	return g.Do(g.Request(http.MethodGet, path, "", h...))
}

// JSON decodes the body, or fails the test.
func (r Response) JSON(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.Body, &v); err != nil {
		t.Fatalf("status %d, body is not a JSON object: %v: %.300s", r.Status, err, r.Body)
	}
	return v
}

// Entry returns the log entry of a response, by its request id. An exchange is
// recorded after its last byte was sent, so the entry may come a moment later.
func (g *Gateway) Entry(res Response) map[string]any {
	g.t.Helper()
	return g.entry(res, Key)
}

// KeylessEntry is [Gateway.Entry] for a request that showed no valid key. It
// belongs to no organisation.
func (g *Gateway) KeylessEntry(res Response) map[string]any {
	g.t.Helper()
	if g.reader == "" {
		db, err := store.Open(g.t.Context(), g.database, store.Options{})
		if err != nil {
			g.t.Fatal(err)
		}
		defer db.Close()
		key, _, err := server.CreateKey(g.t.Context(), db,
			store.Key{Name: "reader", Scopes: []access.Scope{access.ScopeAll, access.ScopeInstallation}})
		if err != nil {
			g.t.Fatal(err)
		}
		g.reader = key.Reveal()
	}
	return g.entry(res, g.reader)
}

func (g *Gateway) entry(res Response, key string) map[string]any {
	g.t.Helper()
	id := res.Header.Get("x-gateway-request-id")
	if _, err := reqlog.ParseID(id); err != nil {
		g.t.Fatalf("the response has no request id: %q", id)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		log := g.Get("/logs/"+id, "x-gateway-api-key", key)
		if log.Status == http.StatusOK {
			return log.JSON(g.t)
		}
		wait := log.Status == http.StatusNotFound || log.Status == http.StatusUnauthorized && key == g.reader // a key that was just made
		if !wait || time.Now().After(deadline) {
			g.t.Fatalf("reading the log entry %s: status %d: %s", id, log.Status, log.Body)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// Buffer is a log sink that may be read while it is written.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// tail returns the last lines, of 16 KB at most.
func (b *Buffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b.Bytes()[max(0, b.b.Len()-16<<10):])
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
