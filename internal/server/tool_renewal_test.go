package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/server/connections"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// openSealer seals nothing.
type openSealer struct{}

func (openSealer) Seal(_ context.Context, _ string, s secret.String) (string, error) {
	return s.Reveal(), nil
}

func (openSealer) Open(_ context.Context, _, sealed string) (secret.String, error) {
	return secret.New(sealed), nil
}

// plainDoer sends requests wherever they go, and counts those in progress.
type plainDoer struct{ now, most atomic.Int64 }

func (d *plainDoer) Do(req *http.Request, _ bool) (*http.Response, error) {
	n := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	return http.DefaultTransport.RoundTrip(req)
}

// renewalWorld is a node of its own on the database of a gateway, with a clock that the test sets.
type renewalWorld struct {
	t      *testing.T
	auth   *toolservertest.Authorization
	doer   *plainDoer
	users  *connections.Service
	server *toolserver.Server
	id     *access.Identity

	mu    sync.Mutex
	clock time.Time // guarded by mu
}

func newRenewalWorld(t *testing.T) *renewalWorld {
	t.Helper()
	data := t.TempDir()
	g := &signInWorld{t: t, Gateway: gatewaytest.New(t, gatewaytest.Options{MasterKey: "a master key of a test, long enough", Data: data}), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
	g.auth.Protect(g.server, nil)
	g.addServer("oauth_auto", "")
	ann := g.user("ann")
	ann.signIn()
	db, err := store.Open(t.Context(), "file:"+filepath.Join(data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	rows, err := db.ActiveToolServers(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	row, err := db.ToolConnection(t.Context(), rows[0].ID, ann.id)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(g.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	box, err := secret.NewBox(secret.New("another master key of a test, long enough"))
	if err != nil {
		t.Fatal(err)
	}
	w := &renewalWorld{t: t, auth: g.auth, doer: new(plainDoer), clock: time.Now(), id: &access.Identity{UserID: ann.id},
		server: &toolserver.Server{ID: rows[0].ID, Slug: "notes", URL: address, Auth: toolserver.AuthUser}}
	w.users = connections.New(connections.Options{DB: db, Secrets: openSealer{}, Client: toolauth.New(w.doer, w.now), Now: w.now,
		Links:  toolauth.Links{Box: box, Address: func() string { return g.Root }},
		Egress: func(string, string) *egress.Policies { return nil }, Logger: slog.New(slog.DiscardHandler)})
	requests := g.auth.Requests("/authorize")
	grant := &toolauth.Grant{URL: g.server.URL, SignIn: "x", Issued: w.clock,
		Registration: toolauth.Registration{ID: requests[len(requests)-1].Form.Get("client_id"), Method: "none"}}
	grant.Access = secret.New("old")
	grant.Refresh = secret.New(g.auth.LastRefresh())
	grant.Tokens.Ends = w.clock.Add(time.Hour)
	row.Sealed = grant.Text().Reveal()
	if done, err := db.ReplaceConnection(t.Context(), row); err != nil || !done {
		t.Fatal(done, err)
	}
	return w
}

func (w *renewalWorld) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *renewalWorld) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// ask asks for the credential, and wants a number of requests for tokens since the beginning.
func (w *renewalWorld) ask(what string, want int) error {
	w.t.Helper()
	c, err := w.users.Credential(w.t.Context(), w.server, w.id)
	if err == nil && c.Header.Get("Authorization") == "" {
		w.t.Errorf("%s: no token and no error", what)
	}
	if got := len(w.auth.Requests("/token")) - 1; got != want { // one was for the code
		w.t.Errorf("%s: %d requests to renew, want %d", what, got, want)
	}
	return err
}

// TestFailedRenewalsWait has a token endpoint that fails. A renewal is tried twice, and then not
// before a time that doubles.
func TestFailedRenewalsWait(t *testing.T) {
	t.Parallel()
	w := newRenewalWorld(t)
	fail := func(path string, _ url.Values) (int, string) {
		if path == "/token" {
			return 503, `{}`
		}
		return 0, ""
	}
	w.auth.Fail(fail)
	const early = time.Millisecond
	if err := w.ask("a fresh token", 0); err != nil {
		t.Error(err)
	}
	w.pass(59*time.Minute + 10*time.Second) // it is valid for 50 more
	if err := w.ask("a token that ends soon", 2); err != nil {
		t.Error("a valid token is not used while the endpoint fails:", err)
	}
	want := 2
	for _, wait := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
		w.pass(wait - early)
		if err := w.ask("before "+wait.String(), want); err != nil {
			t.Error(err)
		}
		w.pass(early)
		want += 2
		if err := w.ask("after "+wait.String(), want); err != nil {
			t.Error(err)
		}
	}
	w.pass(20 * time.Second) // it has ended, which the wait does not outlast
	want += 2
	if w.ask("a token that has ended", want) == nil {
		t.Error("a token that has ended is used")
	}
	for range 3 {
		w.pass(32*time.Second - early) // the longest wait
		if w.ask("before the longest wait", want) == nil {
			t.Error("a token that has ended is used")
		}
		w.pass(early)
		if want += 2; w.ask("after the longest wait", want) == nil {
			t.Error("a token that has ended is used")
		}
	}
	w.auth.Fail(nil)
	w.pass(32 * time.Second)
	want++
	for range 3 {
		if err := w.ask("an endpoint that works again", want); err != nil {
			t.Error(err)
		}
	}
	w.auth.Fail(fail)
	w.pass(time.Hour - time.Second)
	if want += 2; w.ask("the first failure after that", want) != nil {
		t.Error("a valid token is not used")
	}
}

// TestManyCallersRenewOnce has many calls at once, while the endpoint fails and while it works.
func TestManyCallersRenewOnce(t *testing.T) {
	t.Parallel()
	w := newRenewalWorld(t)
	w.pass(2 * time.Hour)
	all := func() (failed int64) {
		var callers sync.WaitGroup
		var n atomic.Int64
		for range 50 {
			callers.Go(func() {
				if _, err := w.users.Credential(t.Context(), w.server, w.id); err != nil && !errors.Is(err, context.Canceled) {
					n.Add(1)
				}
			})
		}
		callers.Wait()
		return n.Load()
	}
	w.auth.Fail(func(path string, _ url.Values) (int, string) {
		if path == "/token" {
			return 503, `{}`
		}
		return 0, ""
	})
	if n := all(); n != 50 {
		t.Errorf("%d of 50 calls fail", n)
	}
	w.ask("while it fails", 2)
	w.auth.Fail(nil)
	w.pass(2 * time.Second)
	if n := all(); n != 0 {
		t.Errorf("%d of 50 calls fail", n)
	}
	w.ask("when it works", 3)
	if most := w.doer.most.Load(); most != 1 {
		t.Errorf("%d requests at once", most)
	}
}

// TestANodeRenewsATokenThatAnotherHasRenewed has a token refused that a node has just read, because
// the one that it remembered had been renewed by another node.
func TestANodeRenewsATokenThatAnotherHasRenewed(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	o := gatewaytest.Options{MasterKey: "a master key of a test, long enough", Database: dsn}
	w := &signInWorld{t: t, Gateway: gatewaytest.New(t, o), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
	two := gatewaytest.New(t, o)
	w.auth.Protect(w.server, nil)
	w.addServer("oauth_auto", "")
	ann := w.user("ann")
	ann.signIn()
	for i := range 5 {
		waittest.Until(t, "the other node has the connection", func() bool { _, text := ann.call(two); return text != "" })
		for _, g := range []*gatewaytest.Gateway{w.Gateway, two} {
			w.auth.Expire()
			if _, text := ann.call(g); text == "" {
				t.Fatalf("round %d: a call fails, the state is %v", i, ann.state())
			}
		}
	}
}

// TestTokensThatAreRefusedAtOnceEndAConnection has a server that accepts no token any more.
func TestTokensThatAreRefusedAtOnceEndAConnection(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann := w.user("ann")
	ann.signIn()
	if _, text := ann.call(w.Gateway); text == "" {
		t.Fatal("the call after the sign-in failed")
	}
	before := len(w.auth.Requests("/token"))
	w.server.Handle("POST", toolservertest.Status(http.StatusUnauthorized))
	waittest.Until(t, "the connection ends", func() bool { ann.call(w.Gateway); return ann.state() == "needs_reauth" })
	if n := len(w.auth.Requests("/token")) - before; n > 2 {
		t.Errorf("it was renewed %d times before", n)
	}
}
