// Package routetest lets tests call routes of the control plane.
//
// It provides a real database in a temporary file and callers whose type, workspace and
// scopes the test chooses; nothing else is faked. For a complete gateway with listeners
// see gatewaytest.
package routetest

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
)

// Bench is an API with a database of its own.
type Bench struct {
	*route.API
	DB *store.DB

	// Clock is the time that routes see. It does not advance by itself.
	Clock time.Time

	t       testing.TB
	path    string // of the database file
	add     []func(*route.API)
	callers map[string]*access.Identity
	changes atomic.Int64
}

// New returns a bench with the routes that add adds.
func New(t testing.TB, add ...func(*route.API)) *Bench {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "modelgate.db"), add)
}

// Keep saves the content of the database and returns a function that restores it.
func (b *Bench) Keep() (restore func()) {
	b.t.Helper()
	kept := filepath.Join(b.t.TempDir(), "kept.db")
	b.Exec(`VACUUM INTO $1`, kept)
	file, err := sqlite.Open(b.t.Context(), sqlite.Options{Path: b.path})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { file.Close() })
	if _, err := file.Write.ExecContext(b.t.Context(), `PRAGMA foreign_keys = OFF; ATTACH $1 AS kept`, kept); err != nil {
		b.t.Fatal(err)
	}
	var all strings.Builder
	all.WriteString("BEGIN IMMEDIATE;\n")
	for _, table := range b.Query(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`) {
		all.WriteString("DELETE FROM main." + table + "; INSERT INTO main." + table + " SELECT * FROM kept." + table + ";\n")
	}
	all.WriteString("COMMIT")
	return func() {
		b.t.Helper()
		if _, err := file.Write.ExecContext(b.t.Context(), all.String()); err != nil {
			b.t.Fatalf("restoring the database: %v", err)
		}
	}
}

func open(t testing.TB, path string, add []func(*route.API)) *Bench {
	t.Helper()
	db, err := store.Open(t.Context(), "file:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b := &Bench{DB: db, t: t, path: path, add: add, callers: make(map[string]*access.Identity)}
	b.Clock = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	b.API = route.New(route.Deps{
		DB: db, Logger: slog.New(slog.DiscardHandler), Version: "test",
		Authenticate: b.authenticate, OnChange: func() time.Duration { b.changes.Add(1); return 0 }, Now: func() time.Time { return b.Clock },
		Links:   route.Links{ListenURL: "http://listen.example:8787"},
		Secrets: newSealer(t),
	})
	for _, f := range add {
		f(b.API)
	}
	return b
}

// OpenNode returns another node with the same database, and the same keys.
func (b *Bench) OpenNode(add ...func(*route.API)) *Bench {
	b.t.Helper()
	return open(b.t, b.path, add)
}

func (b *Bench) authenticate(r *http.Request) (*access.Identity, error) {
	if id := b.callers[r.Header.Get("x-gateway-api-key")]; id != nil {
		return id, nil
	}
	return nil, apierr.New(apierr.Unauthenticated, "the gateway key is unknown")
}

// Verify accepts the id of a caller as a token of an issuer.
func (b *Bench) Verify(text string) (*access.Identity, error) {
	if id := b.callers[text]; id != nil && id.Type == access.Token {
		return id, nil
	}
	return nil, apierr.New(apierr.Unauthenticated, "the token is unknown")
}

// References returns a resolver of secrets that reads some of the host.
func References() *secretref.Resolver {
	return secretref.New(secretref.Options{Environment: []string{"APP_*"}, Files: []string{"/run/secrets"}})
}

// sealer seals with the master key only; data keys of organisations are the server's.
type sealer struct{ box *secret.Box }

func newSealer(t testing.TB) sealer {
	t.Helper()
	box, err := secret.NewBox(secret.New("the master key of a test"))
	if err != nil {
		t.Fatal(err)
	}
	return sealer{box}
}

// Seal implements route.Sealer.
func (s sealer) Seal(_ context.Context, _ string, v secret.String) (string, error) {
	return s.box.Seal(v), nil
}

// Open implements route.Sealer.
func (s sealer) Open(_ context.Context, _, sealed string) (secret.String, error) {
	return s.box.Open(sealed)
}

// Exec runs a statement on the database, for rows that the tested family does not
// create.
func (b *Bench) Exec(text string, args ...any) {
	b.t.Helper()
	file, err := sqlite.Open(b.t.Context(), sqlite.Options{Path: b.path})
	if err == nil {
		defer file.Close()
		_, err = file.Write.ExecContext(b.t.Context(), text, args...)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
}

// Query returns the rows that a statement selects, one string each.
func (b *Bench) Query(text string) []string {
	b.t.Helper()
	file, err := sqlite.Open(b.t.Context(), sqlite.Options{Path: b.path})
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	rows, err := file.Read.QueryContext(b.t.Context(), text)
	if err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			b.t.Fatalf("%s: %v", text, err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	return list
}

// Changes returns the number of changes published so far.
func (b *Bench) Changes() int { return int(b.changes.Load()) }

// Caller calls routes with one identity.
type Caller struct {
	b   *Bench
	key string
	at  string // address and port; empty means the default of httptest
}

// As returns a caller with this identity. An empty organisation or workspace is the
// initial one; "-" is none.
func (b *Bench) As(id access.Identity) *Caller {
	if id.Organisation == "" {
		id.Organisation = store.DefaultOrganisation
	}
	switch id.Workspace {
	case "":
		id.Workspace = store.DefaultWorkspace
	case "-":
		id.Workspace = ""
	}
	if id.KeyID == "" {
		id.KeyID = "key-" + string(rune('a'+len(b.callers)))
	}
	if id.Type == access.Session && id.ProvedAt.IsZero() {
		id.ProvedAt = b.API.Now()
	}
	b.callers[id.KeyID] = &id
	return &Caller{b: b, key: id.KeyID}
}

// Root returns a caller who may do everything in the first organisation.
func (b *Bench) Root() *Caller { return b.As(access.Identity{Scopes: []access.Scope{access.ScopeAll}}) }

// CallerOf returns a caller by the id of a key that exists on another bench.
func (b *Bench) CallerOf(key string) *Caller { return &Caller{b: b, key: key} }

// Nobody returns a caller without a key.
func (b *Bench) Nobody() *Caller { return &Caller{b: b} }

// At returns the caller with another client address.
func (c *Caller) At(ip string) *Caller { return &Caller{c.b, c.key, net.JoinHostPort(ip, "4000")} }

// Response is a response.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Call sends a request; a non-empty body is JSON.
func (c *Caller) Call(method, path, body string) Response { return c.CallWith(method, path, body, nil) }

// CallWith is [Caller.Call] with additional headers.
func (c *Caller) CallWith(method, path, body string, h http.Header) Response {
	if !strings.HasPrefix(path, "/v2/") {
		path = "/v1" + path
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if c.at != "" {
		r.RemoteAddr = c.at
	}
	maps.Copy(r.Header, h)
	r.Header.Set("x-gateway-api-key", c.key)
	if body != "" && h.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if !c.b.Handles(r) {
		return Response{Status: http.StatusNotFound, Body: "no route"}
	}
	w := httptest.NewRecorder()
	c.b.ServeHTTP(w, r)
	return Response{w.Code, w.Header(), w.Body.String()}
}

// Must sends a request and fails the test unless the status is 200. The response is
// decoded into out unless out is nil.
func (c *Caller) Must(method, path, body string, out any) {
	c.b.t.Helper()
	a := c.Call(method, path, body)
	if a.Status != http.StatusOK {
		c.b.t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(a.Body), out); err != nil {
		c.b.t.Fatalf("%s %s: %v: %s", method, path, err, a.Body)
	}
}

// Another returns a bench with the same routes and database, as another node of the
// installation is.
func (b *Bench) Another() *Bench {
	b.t.Helper()
	other := open(b.t, b.path, b.add)
	other.Secrets, other.callers = b.Secrets, b.callers
	return other
}

// Serve sends a request as it is, without a key.
func (b *Bench) Serve(r *http.Request) Response {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	b.ServeHTTP(w, r)
	return Response{w.Code, w.Header(), w.Body.String()}
}
