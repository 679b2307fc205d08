package access_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
)

func TestServiceKeyRanksNoHigherThanItsMaker(t *testing.T) {
	for _, tt := range []struct {
		name string
		id   access.Identity
		want access.Rank
	}{
		{"a key of a workspace", access.Identity{Type: access.WorkspaceService}, access.RankAdmin},
		{"a token", access.Identity{Type: access.Token}, access.RankAdmin},
		{"a key of the organisation", access.Identity{Type: access.OrganisationService}, access.RankOrganisation},
		{"a key with every scope", access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{access.ScopeAll}}, access.RankOrganisation},
		{"a key that a manager made", access.Identity{Type: access.WorkspaceService, Rank: access.RankManager}, access.RankManager},
		{"a workspace's key that the organisation made", access.Identity{Type: access.WorkspaceService, Rank: access.RankOrganisation}, access.RankAdmin},
	} {
		if got := tt.id.KeyRank(); got != tt.want {
			t.Errorf("%s has the rank %q, want %q", tt.name, got, tt.want)
		}
	}
}

func nets(list ...string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestKeyIsBoundByItsMaker(t *testing.T) {
	own, makers := &egress.Policy{ManagedOnly: true}, &egress.Policy{CustomHosts: egress.Hosts{}}
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	for _, tt := range []struct {
		name            string
		id, maker, want access.Identity
	}{
		{"no limits", access.Identity{}, access.Identity{}, access.Identity{}},
		{"its own earlier end", access.Identity{ExpiresAt: early}, access.Identity{ExpiresAt: late}, access.Identity{ExpiresAt: early}},
		{"the maker's earlier end", access.Identity{ExpiresAt: late}, access.Identity{ExpiresAt: early}, access.Identity{ExpiresAt: early}},
		{"the maker's end", access.Identity{}, access.Identity{ExpiresAt: early}, access.Identity{ExpiresAt: early}},
		{"the maker's spent budget", access.Identity{}, access.Identity{Exhausted: true}, access.Identity{Exhausted: true}},
		{"its own spent budget", access.Identity{Exhausted: true}, access.Identity{}, access.Identity{Exhausted: true}},
		{"the maker's providers", access.Identity{}, access.Identity{Providers: []string{"a"}}, access.Identity{Providers: []string{"a"}}},
		{"providers of both", access.Identity{Providers: []string{"a", "b"}}, access.Identity{Providers: []string{"b", "c"}}, access.Identity{Providers: []string{"b"}}},
		{"no provider of both", access.Identity{Providers: []string{"a"}}, access.Identity{Providers: []string{"b"}}, access.Identity{Providers: []string{"-"}}},
		{"the maker's addresses", access.Identity{}, access.Identity{AllowedAddresses: nets("10.0.0.0/8")}, access.Identity{AllowedAddresses: nets("10.0.0.0/8")}},
		{"addresses of both", access.Identity{AllowedAddresses: nets("10.1.0.0/16", "127.0.0.1/32")}, access.Identity{AllowedAddresses: nets("10.0.0.0/8", "10.1.2.0/24")}, access.Identity{AllowedAddresses: nets("10.1.0.0/16", "10.1.2.0/24")}},
		{"no address of both", access.Identity{AllowedAddresses: nets("127.0.0.1/32")}, access.Identity{AllowedAddresses: nets("10.0.0.0/8")}, access.Identity{AllowedAddresses: []netip.Prefix{{}}}},
		{"the maker's fixed config", access.Identity{Config: "a"}, access.Identity{Config: "b", ConfigFixed: true}, access.Identity{Config: "b", ConfigFixed: true}},
		{"its own egress policy", access.Identity{Egress: []*egress.Policy{own}}, access.Identity{}, access.Identity{Egress: []*egress.Policy{own}}},
		{"egress policies of both", access.Identity{Egress: []*egress.Policy{own}}, access.Identity{Egress: []*egress.Policy{makers}}, access.Identity{Egress: []*egress.Policy{own, makers}}},
		{"scopes of both", access.Identity{Scopes: []access.Scope{"logs.list", "configs.read"}}, access.Identity{Scopes: []access.Scope{"configs.read", "configs.update"}}, access.Identity{Scopes: []access.Scope{"configs.read"}}},
		{"a maker with every scope", access.Identity{Scopes: []access.Scope{"logs.list"}}, access.Identity{Scopes: []access.Scope{access.ScopeAll}}, access.Identity{Scopes: []access.Scope{"logs.list"}}},
		{"every scope of a maker with few", access.Identity{Scopes: []access.Scope{access.ScopeAll, access.ScopeInstallation}}, access.Identity{Scopes: []access.Scope{"logs.list"}}, access.Identity{}},
		{"a scope that only keys of workspaces hold", access.Identity{Scopes: []access.Scope{"completions.write", "logs.list"}}, access.Identity{Type: access.OrganisationService}, access.Identity{Scopes: []access.Scope{"completions.write"}}},
		{"a maker that is a person's key", access.Identity{Scopes: []access.Scope{"logs.list"}}, access.Identity{Type: access.WorkspaceUser, UserID: "u"}, access.Identity{Scopes: []access.Scope{"logs.list"}}},
		{"the maker's free config", access.Identity{Config: "a"}, access.Identity{Config: "b"}, access.Identity{Config: "a"}},
	} {
		got := tt.id.Under(&tt.maker)
		if !got.ExpiresAt.Equal(tt.want.ExpiresAt) || got.Exhausted != tt.want.Exhausted || !slices.Equal(got.Providers, tt.want.Providers) || got.Config != tt.want.Config || got.ConfigFixed != tt.want.ConfigFixed || !slices.Equal(got.Egress, tt.want.Egress) ||
			!slices.Equal(got.AllowedAddresses, tt.want.AllowedAddresses) || !slices.Equal(got.Scopes, tt.want.Scopes) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestKeysEndWithTheirMakers(t *testing.T) {
	end := time.Unix(100, 0)
	keys := []*access.Identity{
		{KeyID: "maker", Hash: access.HashKey("now")}, {KeyID: "maker", Hash: access.HashKey("before"), ExpiresAt: end}, // in a transition
		{KeyID: "child", Lineage: []string{"maker"}}, {KeyID: "grandchild", Lineage: []string{"child", "maker"}},
		{KeyID: "orphan", Lineage: []string{"revoked"}}, {KeyID: "far orphan", Lineage: []string{"child", "revoked"}}, {KeyID: "free"},
	}
	var ids []string
	for _, id := range access.Bind(keys) {
		ids = append(ids, id.KeyID)
		if len(id.Lineage) > 0 && !id.ExpiresAt.IsZero() {
			t.Errorf("%s ends with the secret before of its maker", id.KeyID)
		}
	}
	if want := []string{"maker", "maker", "child", "grandchild", "free"}; !slices.Equal(ids, want) {
		t.Errorf("bound keys are %q, want %q", ids, want)
	}
	plain := keys[6:]
	if got := access.Bind(plain); &got[0] != &plain[0] {
		t.Error("keys without makers were copied")
	}
}

func TestKeysCountForTheUsersOfTheirMakers(t *testing.T) {
	keys := access.Bind([]*access.Identity{
		{KeyID: "own", UserID: "ann"}, {KeyID: "child", Lineage: []string{"own"}},
		{KeyID: "grandchild", UserID: "bob", Lineage: []string{"child", "own"}}, {KeyID: "second", UserID: "ann", Lineage: []string{"own"}},
	})
	want := map[string]string{"own": "", "child": "ann", "grandchild": "ann", "second": ""}
	if len(keys) != len(want) {
		t.Fatalf("%d keys, want %d", len(keys), len(want))
	}
	for _, id := range keys {
		if got := strings.Join(id.Makers, " "); got != want[id.KeyID] {
			t.Errorf("makers of %s = %q, want %q", id.KeyID, got, want[id.KeyID])
		}
	}
}
