package manifest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const people = `identity_providers:
  - {slug: okta, issuer: "https://example.okta.com", client_id: one, client_secret: "${OKTA_SECRET}", domains: [example.com]}
domains: [{name: Example.COM}]
directory_mappings: [{scim_group: Engineering, workspace: default, role: manager}]
`

func TestSignInIsAppliedChangedAndPruned(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		provider := func() store.IdentityProvider {
			t.Helper()
			p, err := w.DB.IdentityProvider(t.Context(), store.DefaultOrganisation, "okta")
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		added := []string{"+ identity_provider okta", "+ domain example.com", "+ directory_mapping default/engineering"}
		if got := w.mustApply(t, people, manifest.Apply{DryRun: true}); !slices.Equal(got, added) {
			t.Errorf("a dry run says %q", got)
		}
		if list, _, err := w.DB.IdentityProviders(t.Context(), store.DefaultOrganisation, store.Page{}); err != nil || len(list) != 0 {
			t.Fatalf("a dry run stored %v, %v", list, err)
		}
		w.mustApply(t, people, manifest.Apply{})
		first := provider()
		if first.CreatedBy != "file" || first.Sealed == "" || first.Status != store.Active || first.Name != "okta" {
			t.Fatalf("stored %+v", first)
		}
		d, err := w.DB.Domain(t.Context(), store.DefaultOrganisation, "example.com")
		if err != nil || !d.VerifiedAt.IsZero() || d.Challenge == "" {
			t.Fatalf("a file verified the domain: %+v, %v", d, err)
		}
		w.update(t, func(tx *store.Tx) error { return tx.VerifyDomain(t.Context(), d, time.Now()) })
		for _, same := range []string{people, strings.Replace(people, `, client_secret: "${OKTA_SECRET}"`, "", 1), strings.Replace(people, "Engineering", "ENGINEERING", 1)} {
			if got := w.mustApply(t, same, manifest.Apply{Prune: true}); len(got) != 0 {
				t.Errorf("the same file again changes %q:\n%s", got, same)
			}
		}
		w.session(t, first.ID)
		changed := strings.NewReplacer("client_id: one", "client_id: one, status: disabled", "role: manager", "role: admin").Replace(people)
		want := []string{"~ identity_provider okta [status]", "~ directory_mapping default/engineering [role]"}
		if got := w.mustApply(t, changed, manifest.Apply{}); !slices.Equal(got, want) {
			t.Errorf("changed %q, want %q", got, want)
		}
		if p := provider(); p.ID != first.ID || p.Status != "disabled" {
			t.Errorf("changed to %+v", p)
		}
		if n := w.sessions(t); n != 0 {
			t.Errorf("%d sessions of a disabled provider go on", n)
		}
		if d, err := w.DB.Domain(t.Context(), store.DefaultOrganisation, "example.com"); err != nil || d.VerifiedAt.IsZero() {
			t.Errorf("the verified domain became %+v, %v", d, err)
		}
		if got := w.mustApply(t, "version: 1\n", manifest.Apply{Prune: true}); len(got) != 0 {
			t.Errorf("a file without the sections prunes %q", got)
		}
		want = []string{"- directory_mapping default/Engineering", "- domain example.com", "- identity_provider okta"}
		got := w.mustApply(t, "identity_providers: []\ndomains: []\ndirectory_mappings: []\n", manifest.Apply{Prune: true})
		if len(got) != 3 || !strings.EqualFold(strings.Join(got, " "), strings.Join(want, " ")) {
			t.Errorf("pruned %q, want %q", got, want)
		}
	})
}

// update changes the database directly.
func (p place) update(t *testing.T, f func(*store.Tx) error) {
	t.Helper()
	if err := p.DB.Update(t.Context(), nil, f); err != nil {
		t.Fatal(err)
	}
}

// session begins a session of a member at an identity provider.
func (p place) session(t *testing.T, provider string) {
	t.Helper()
	p.mustApply(t, "members: [{email: ann@example.com}]\n", manifest.Apply{})
	u, err := p.DB.User(t.Context(), store.DefaultOrganisation, "ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p.update(t, func(tx *store.Tx) error {
		return tx.CreateSession(t.Context(), store.Session{Hash: "h", ID: "s", UserID: u.ID, Organisation: store.DefaultOrganisation,
			CreatedAt: now, ExpiresAt: now.Add(time.Hour), Method: store.MethodSSO, Provider: provider})
	})
	if n := p.sessions(t); n != 1 {
		t.Fatalf("%d sessions began", n)
	}
}

func (p place) sessions(t *testing.T) int {
	t.Helper()
	u, err := p.DB.User(t.Context(), store.DefaultOrganisation, "ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.DB.Sessions(t.Context(), store.DefaultOrganisation, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestMappingsOfAFileGiveAndTakeRoles(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		w.mustApply(t, "members: [{email: ann@example.com}]\n"+people, manifest.Apply{})
		u, err := w.DB.User(t.Context(), store.DefaultOrganisation, "ann@example.com")
		if err != nil {
			t.Fatal(err)
		}
		g, err := w.DB.DirectoryGroupByName(t.Context(), store.DefaultOrganisation, "engineering")
		if err != nil {
			t.Fatal(err)
		}
		w.update(t, func(tx *store.Tx) error {
			if _, err := tx.AddGroupMembers(t.Context(), g.ID, []string{u.ID}); err != nil {
				return err
			}
			return tx.RefreshRoles(t.Context(), store.DefaultOrganisation, []string{u.ID}, time.Now())
		})
		for _, tt := range []struct{ mappings, want string }{
			{"[{scim_group: Engineering, workspace: default, role: manager}]", "manager"},
			{"[{scim_group: Engineering, workspace: default, role: admin}]", "admin"},
			{"[]", ""},
		} {
			w.mustApply(t, "directory_mappings: "+tt.mappings+"\n", manifest.Apply{Prune: true})
			m, _ := w.DB.WorkspaceMember(t.Context(), store.DefaultWorkspace, u.ID)
			if m.Role != tt.want {
				t.Errorf("with the mappings %s the role is %q, want %q", tt.mappings, m.Role, tt.want)
			}
		}
	})
}

func TestWrongSignInIsRefusedByItsField(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	w.mustApply(t, people, manifest.Apply{})
	const absent = `, client_secret: "${OKTA_SECRET}"`
	for _, tt := range []struct{ was, is, want string }{
		{"https://example.okta.com", "https://user@example.okta.com", "identity_providers[0].issuer: must not have a user"},
		{"https://example.okta.com", "https://127.0.0.1", "identity_providers[0].issuer: is not allowed"},
		{"https://example.okta.com", "https://login.microsoftonline.com/common/v2.0", "identity_providers[0].issuer: is of all tenants"},
		{"client_id: one", "client_id: \"\"", "identity_providers[0].client_id: is required"},
		{`"${OKTA_SECRET}"`, "plain", "identity_providers[0].client_secret"},
		{"slug: okta" + "", "slug: okta.new", "identity_providers[0]"},
		{"slug: okta", "slug: other", ""},
		{"slug: okta", "slug: okta, type: saml", "identity_providers[0].type"},
		{"slug: okta", "slug: okta, colour: red", `unknown field "colour"`},
		{"slug: okta", "slug: okta, role: owner", "identity_providers[0].role"},
		{"domains: [example.com]", "domains: [\"exa mple.com\"]", "identity_providers[0].domains"},
		{"client_id: one" + absent, "client_id: two", "identity_providers[0].client_secret: must be sent again"},
		{"client_id: one" + absent, "client_id: one, token_endpoint_auth_method: private_key_jwt, client_secret: \"${OKTA_SECRET}\"", "identity_providers[0].client_secret"},
		{"client_id: one", "client_id: one, token_endpoint_auth_method: none", "identity_providers[0].client_secret: is not used"},
		{"{name: Example.COM}", "{name: Example.COM}, {name: example.com}", "domains[1]: example.com is duplicated"},
		{"{name: Example.COM}", "{name: \"exa mple\"}", "domains[0]"},
		{"workspace: default", "workspace: nowhere", `directory_mappings[0].workspace: workspace "nowhere" not found`},
		{"role: manager", "role: owner", "directory_mappings[0].role"},
		{"scim_group: Engineering", "scim_group: \" \"", "directory_mappings[0].scim_group"},
	} {
		text := strings.Replace(people, tt.was, tt.is, 1)
		if text == people {
			t.Fatalf("%q is not in the file", tt.was)
		}
		_, err := w.apply(t, text, manifest.Apply{DryRun: true})
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.is, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.is, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error has the secret", tt.is)
		}
	}
}
