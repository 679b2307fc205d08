package integrations_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// workspace adds a workspace of the first organisation and returns its id.
func workspace(t *testing.T, b *routetest.Bench, slug string) string {
	t.Helper()
	id := "00000000-0000-7000-8000-0000000000" + slug[:2]
	b.Exec(`
		INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
			usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $3, '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, id, store.DefaultOrganisation, slug)
	return id
}

// reveal returns what is sealed of an integration.
func reveal(t *testing.T, b *routetest.Bench, id string) string {
	t.Helper()
	i, err := b.DB.Integration(t.Context(), store.DefaultOrganisation, id)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, b, i.Sealed)
}

func open(t *testing.T, b *routetest.Bench, sealed string) string {
	t.Helper()
	if sealed == "" {
		return ""
	}
	if !secret.IsSealed(sealed) {
		t.Fatalf("%q is not sealed", sealed)
	}
	s, err := b.Secrets.Open(t.Context(), store.DefaultOrganisation, sealed)
	if err != nil {
		t.Fatal(err)
	}
	return s.Reveal()
}

// member returns a key of a workspace with every scope that it may have.
func member(b *routetest.Bench, workspace string) *routetest.Caller {
	return b.As(access.Identity{Type: access.WorkspaceService, Workspace: workspace, Scopes: access.Scopes(access.WorkspaceService)})
}

// welcoming adds a route that does what the making of a workspace does for it.
func welcoming(a *route.API) {
	type in struct {
		Workspace string `path:"workspace"`
	}
	route.Add(a, route.Route{Method: http.MethodPost, Path: "/welcome/{workspace}", Name: "welcome", Resource: "workspace"},
		func(ctx context.Context, c *route.Caller, in *in) (*route.Empty, error) {
			return new(route.Empty), c.Change(ctx, func(tx *store.Tx) error {
				return credentials.GrantDefaults(ctx, tx, c, store.Workspace{ID: in.Workspace, Organisation: c.Organisation})
			})
		})
}

// files returns the bytes of the database.
func files(t *testing.T, b *routetest.Bench) string {
	t.Helper()
	var all strings.Builder
	path := b.Query(`SELECT file FROM pragma_database_list WHERE name = 'main'`)[0]
	for _, end := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(bytes)
	}
	if !strings.Contains(all.String(), "sealed:v1:") {
		t.Fatal("the files are not those that hold the rows")
	}
	return all.String()
}
