package directory_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// bench is the API of directories with a database, on which a directory has a token.
type bench struct {
	testing.TB
	api   *route.API
	db    *store.DB
	clock time.Time
	token string
	other string // of the directory of another organisation
}

// otherOrganisation is an organisation that the tests add.
const otherOrganisation = "other"

// onBoth runs f on each database.
func onBoth(t *testing.T, r directory.Routes, f func(b *bench)) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) { f(newBench(t, r, open())) })
}

func newBench(t testing.TB, r directory.Routes, db *store.DB) *bench {
	t.Helper()
	b := &bench{TB: t, db: db, clock: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	b.api = route.New(route.Deps{
		DB: db, Logger: slog.New(slog.DiscardHandler), Version: "test", Authenticate: b.authenticate, Now: func() time.Time { return b.clock },
		Links: route.Links{ListenURL: "http://listen.example"},
	})
	r.Add(b.api)
	b.update(func(tx *store.Tx) error {
		return tx.CreateOrganisation(t.Context(), store.Organisation{ID: otherOrganisation, Slug: "other", Name: "Other", Status: "active",
			CreatedAt: b.clock, UpdatedAt: b.clock}, store.Workspace{ID: "other-ws", Slug: "other-ws", Name: "Other", Status: store.Active,
			CreatedAt: b.clock, UpdatedAt: b.clock}, store.PromptCollection{ID: "other-co", Slug: "other-co", CreatedAt: b.clock})
	})
	b.token, b.other = b.addToken(store.DefaultOrganisation), b.addToken(otherOrganisation)
	return b
}

func (b *bench) authenticate(r *http.Request) (*access.Identity, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch token {
	case "":
		return nil, apierr.New(apierr.Unauthenticated, "a key is required")
	case "root":
		return &access.Identity{KeyID: "root", Organisation: store.DefaultOrganisation, Scopes: []access.Scope{access.ScopeAll}}, nil
	}
	return directory.Identify(r.Context(), b.db, directory.Use{Token: token, Now: b.clock, Logger: slog.New(slog.DiscardHandler)})
}

func (b *bench) update(f func(*store.Tx) error) {
	b.Helper()
	if err := b.db.Update(b.Context(), nil, f); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) addToken(organisation string) string {
	b.Helper()
	text := access.NewDirectoryToken().Reveal()
	b.update(func(tx *store.Tx) error {
		return tx.CreateDirectoryToken(b.Context(), store.DirectoryToken{ID: "token-of-" + organisation, Organisation: organisation, Name: "a token",
			Hash: access.HashKey(text).String(), CreatedAt: b.clock})
	})
	return text
}

// call is a request of a test.
type call struct {
	method, path, body string
	token              string // empty for the directory's
	header             http.Header
}

func (b *bench) send(c call) *httptest.ResponseRecorder {
	b.Helper()
	if c.token == "" {
		c.token = b.token
	}
	r := httptest.NewRequest(c.method, strings.ReplaceAll(c.path, " ", "%20"), strings.NewReader(c.body))
	maps.Copy(r.Header, c.header)
	r.Header.Set("Authorization", "Bearer "+c.token)
	if c.body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/scim+json")
	}
	if !b.api.Handles(r) {
		b.Fatalf("%s %s: no route", c.method, c.path)
	}
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	return w
}

// scim sends a request to SCIM, fails unless it has the status, and returns the body.
func (b *bench) scim(status int, method, path, body string) map[string]any {
	b.Helper()
	w := b.send(call{method: method, path: "/v1/scim/v2" + path, body: body})
	if w.Code != status {
		b.Fatalf("%s %s %.300s: %d %s, want %d", method, path, body, w.Code, w.Body, status)
	}
	var out map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			b.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
	}
	return out
}

// admin sends a request of an administrator and returns the body.
func (b *bench) admin(status int, method, path, body string) map[string]any {
	b.Helper()
	w := b.send(call{method: method, path: "/v1" + path, body: body, token: "root", header: http.Header{"Content-Type": {"application/json"}}})
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != status {
		b.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	return out
}

// user creates a user and returns its id.
func (b *bench) user(name string) string {
	b.Helper()
	return b.scim(201, "POST", "/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"`+name+`"}`)["id"].(string)
}

// group creates a group and returns its id.
func (b *bench) group(name string, members ...string) string {
	b.Helper()
	list := []map[string]string{}
	for _, id := range members {
		list = append(list, map[string]string{"value": id})
	}
	body, err := json.Marshal(map[string]any{"displayName": name, "members": list})
	if err != nil {
		b.Fatal(err)
	}
	return b.scim(201, "POST", "/Groups", string(body))["id"].(string)
}

// role returns the role of a user in a workspace and who set it.
func (b *bench) role(workspace, user string) string {
	b.Helper()
	m, err := b.db.WorkspaceMember(b.Context(), workspace, user)
	if apierr.IsNotFound(err) {
		return "none"
	}
	if err != nil {
		b.Fatal(err)
	}
	return m.Role + " by " + m.Origin
}

// toJSON returns v as JSON.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// sorted returns list sorted.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
