package publication_test

import (
	"slices"
	"testing"
	"time"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

func TestToolServersArePublished(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		now := time.UnixMilli(1_800_000_000_000).UTC()
		i := store.ToolIntegration{ID: "i", Organisation: store.DefaultOrganisation, Slug: "issues", Transport: "http", URL: "https://tools.example.com/mcp",
			Auth: "none", Status: store.Active, CreatedAt: now, UpdatedAt: now, Settings: store.ToolSettings{ToolRules: store.ToolRules{Writes: "ask"}}}
		s := store.ToolServer{ID: "s", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Integration: "i", Slug: "issues",
			DefaultAccess: store.AccessDeny, Status: store.Active, CreatedAt: now, UpdatedAt: now}
		b := store.ToolBundle{ID: "b", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Slug: "daily", Selection: []string{"issues"},
			CreatedAt: now, UpdatedAt: now}
		price := int64(5)
		var before *publication.State
		step := func(what string, servers int, change func(tx *store.Tx) error) *publication.State {
			t.Helper()
			if err := db.Update(t.Context(), nil, change); err != nil {
				t.Fatal(what, err)
			}
			after, err := publication.Load(t.Context(), db, before)
			if err != nil {
				t.Fatal(what, err)
			}
			if before = after; len(after.ToolServers) != servers {
				t.Errorf("%s: %d servers, want %d", what, len(after.ToolServers), servers)
			}
			return after
		}
		ctx := t.Context()
		step("no grant", 0, func(tx *store.Tx) error {
			if err := tx.CreateToolIntegration(ctx, i); err != nil {
				return err
			}
			return tx.CreateToolServer(ctx, s)
		})
		grant := func(enabled bool) func(tx *store.Tx) error {
			return func(tx *store.Tx) error {
				return tx.PutToolGrant(ctx, store.ToolGrant{Integration: "i", Workspace: store.DefaultWorkspace, Enabled: enabled})
			}
		}
		step("granted", 1, grant(true))
		p := step("rules", 1, func(tx *store.Tx) error {
			for _, c := range []store.ToolCapability{
				{Owner: "s", Kind: "tool", Name: "create", Enabled: true, Seen: "x", Approved: "y", Definition: "{}"},
				{Owner: "s", Kind: "tool", Name: "plain", Enabled: true, Seen: "x", Definition: "{}"},
				{Owner: "i", Kind: "tool", Name: "drop", Price: &price, Gone: true},
			} {
				if err := tx.PutToolCapability(ctx, c); err != nil {
					return err
				}
			}
			return tx.CreateToolBundle(ctx, b)
		})
		target := store.ToolTarget(p.ToolServers[0].Integration, &p.ToolServers[0].Row, store.Secrets{})
		target.Own, target.Above = store.ToolItemRules(p.ToolServers[0].Own), store.ToolItemRules(p.ToolServers[0].Above)
		if got := p.ToolServers[0]; len(got.Own) != 1 || got.Own[0].Approved != "y" || got.Own[0].Definition != "" || len(got.Above) != 1 ||
			target.Price("drop") != 5 || target.Shows(toolserver.Item{Kind: toolserver.Tool, Name: "drop"}, "") || target.Writes != toolserver.Ask || !target.Guarded {
			t.Errorf("published %+v as %+v", got, target)
		}
		kept := &p.ToolServers[0]
		p = step("an unrelated change", 1, func(tx *store.Tx) error {
			return tx.CreateGuardrail(ctx, store.Guardrail{ID: "g", Organisation: store.DefaultOrganisation, Slug: "g", Status: store.Active, CreatedAt: now, UpdatedAt: now})
		})
		if &p.ToolServers[0] != kept || len(p.ToolBundles) != 1 || !slices.Equal(p.ToolBundles[0].Selection, []string{"issues"}) {
			t.Error("tool servers were read again although none changed, or the bundle is missing")
		}
		step("no longer granted", 0, grant(false))
		step("granted again", 1, grant(true))
		i.Status = store.Disabled
		step("the integration is disabled", 0, func(tx *store.Tx) error { return tx.UpdateToolIntegration(ctx, i) })
		i.Status = store.Active
		step("and active again", 1, func(tx *store.Tx) error { return tx.UpdateToolIntegration(ctx, i) })
		s.Status = store.Disabled
		step("the server is disabled", 0, func(tx *store.Tx) error { return tx.UpdateToolServer(ctx, s) })
		step("deleted", 0, func(tx *store.Tx) error { return tx.DeleteToolIntegration(ctx, "i") })
	})
}

func TestLimitsOfToolsArePublished(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		for name, tools := range map[string][]string{"all": nil, "nothing": {}, "some": {"issues/tool/*"}} {
			k := sampleKey(name)
			k.Tools = tools
			mustCreate(t, db, k)
		}
		storetest.Exec(t, dsn, `UPDATE workspaces SET tools = '[]'`)
		storetest.Exec(t, dsn, `INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u', 'u@example.com', '', '', '', 'active', 0, 0)`)
		storetest.Exec(t, dsn, `INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at, tools) SELECT id, 'u', 'member', 0, 0, '["wiki"]' FROM organisations`)
		p, err := publication.Load(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range p.Identities {
			ok := map[string]bool{"all": id.Tools == nil, "nothing": len(id.Tools) == 1 && id.Tools[0] != nil && len(id.Tools[0]) == 0,
				"some": len(id.Tools) == 1 && slices.Equal(id.Tools[0], []string{"issues/tool/*"})}[id.Name]
			if !ok {
				t.Errorf("the key %s is published with %v", id.Name, id.Tools)
			}
		}
		if w, ok := p.Tools[store.DefaultWorkspace]; !ok || w == nil || len(w) != 0 {
			t.Errorf("the workspace is published with %v, %t", w, ok)
		}
		if len(p.Users) != 1 || !slices.Equal(p.Users[0].Tools, []string{"wiki"}) {
			t.Errorf("users %+v", p.Users)
		}
	})
}
