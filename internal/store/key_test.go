package store_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestExpiredKeysAreMarkedAndOldSecretsForgotten(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) { markExpired(t, open()) })
}

func markExpired(t *testing.T, db *store.DB) {
	t.Helper()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	with := func(name string, change func(*store.Key)) store.Key {
		k := sampleKey(name)
		change(&k)
		return k
	}
	before := access.HashKey("before")
	mustCreate(t, db,
		with("ended", func(k *store.Key) { k.ExpiresAt = now }),
		with("used up and ended", func(k *store.Key) { k.ExpiresAt, k.Status = now.Add(-time.Hour), store.KeyExhausted }),
		with("lasting", func(k *store.Key) { k.ExpiresAt = now.Add(time.Millisecond) }),
		with("endless", func(*store.Key) {}),
		with("revoked", func(k *store.Key) { k.ExpiresAt, k.Status = now, store.KeyRevoked }),
		with("rotated", func(k *store.Key) { k.PreviousHash, k.TransitionEndsAt = &before, now }),
	)
	revision, err := db.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := db.MarkExpired(t.Context(), now, expiredNote); n != 2 || err != nil {
		t.Errorf("MarkExpired() = %d, %v; want 2", n, err)
	}
	got := map[string]string{}
	for _, k := range mustKeys(t, db) {
		got[k.Name] = k.Status
		if k.PreviousHash != nil || !k.TransitionEndsAt.IsZero() {
			t.Errorf("%s keeps its secret before", k.Name)
		}
	}
	want := map[string]string{"ended": "expired", "used up and ended": "expired", "lasting": "active", "endless": "active", "revoked": "revoked", "rotated": "active"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	mustRevision(t, db, revision+1)
	if n, err := db.MarkExpired(t.Context(), now, expiredNote); n != 0 || err != nil {
		t.Errorf("MarkExpired() again = %d, %v", n, err)
	}
	mustRevision(t, db, revision+1)
}

func TestKeysAreListedAsFarAsTheyAreSeen(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) { listKeys(t, open()) })
}

func listKeys(t *testing.T, db *store.DB) {
	t.Helper()
	add := func(name string, kind access.KeyType, workspace, user, status string) {
		k := sampleKey(name)
		k.Organisation, k.Type, k.Workspace, k.UserID, k.Status = store.DefaultOrganisation, kind, workspace, user, status
		mustCreate(t, db, k)
	}
	add("org", access.OrganisationService, "", "", store.KeyActive)
	add("one", access.WorkspaceService, "w1", "", store.KeyExhausted)
	add("two", access.WorkspaceService, "w2", "", store.KeyExpired)
	add("mine", access.WorkspaceUser, "w2", "me", store.KeyActive)
	add("yours", access.WorkspaceUser, "w2", "you", store.KeyActive)
	add("gone", access.WorkspaceService, "w1", "", store.KeyRevoked)
	every := []access.KeyType{access.OrganisationService, access.WorkspaceService, access.WorkspaceUser}
	for _, tt := range []struct {
		name string
		f    store.KeyFilter
		page store.Page
		want string
	}{
		{"all", store.KeyFilter{Types: every}, store.Page{}, "5 [yours mine two one org]"},
		{"a page", store.KeyFilter{Types: every}, store.Page{Number: 1, Size: 2}, "5 [two one]"},
		{"no type", store.KeyFilter{}, store.Page{}, "0 []"},
		{"of users", store.KeyFilter{Types: every[2:]}, store.Page{}, "2 [yours mine]"},
		{"of a workspace", store.KeyFilter{Types: every, Workspaces: []string{"w1"}}, store.Page{}, "1 [one]"},
		{"one's own", store.KeyFilter{Types: every, Workspaces: []string{"w1"}, OwnIn: []string{"w2"}, Owner: "me"}, store.Page{}, "2 [mine one]"},
		{"nothing", store.KeyFilter{Types: every, Workspaces: []string{}}, store.Page{}, "0 []"},
		{"of a pattern", store.KeyFilter{Types: every, Workspaces: []string{"%"}}, store.Page{}, "0 []"},
		{"of another organisation", store.KeyFilter{Organisation: "other", Types: every}, store.Page{}, "0 []"},
	} {
		if tt.f.Organisation == "" {
			tt.f.Organisation = store.DefaultOrganisation
		}
		list, total, err := db.KeysOf(t.Context(), tt.f, tt.page)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, k := range list {
			names = append(names, k.Name)
		}
		if got := fmt.Sprint(total, names); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestASecretThatWasRotatedProvesTheSameUntilItsTransitionEnds(t *testing.T) {
	k := sampleKey("ci")
	k.Defaults = json.RawMessage(`{"config_id":"pc-a-000000","config_fixed":true,"metadata":{"team":"a"}}`)
	before, ends := access.HashKey("before"), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	if got := k.Identities(); len(got) != 1 || got[0].Config != "pc-a-000000" || !got[0].ConfigFixed || got[0].Metadata["team"] != "a" {
		t.Errorf("identities %+v", got)
	}
	k.PreviousHash, k.TransitionEndsAt = &before, ends
	for _, tt := range []struct{ expires, want time.Time }{
		{time.Time{}, ends}, {ends.Add(time.Hour), ends}, {ends.Add(-time.Hour), ends.Add(-time.Hour)},
	} {
		k.ExpiresAt = tt.expires
		got := k.Identities()
		if len(got) != 2 || got[1].Hash != before || got[1].KeyID != k.ID || !got[1].ExpiresAt.Equal(tt.want) || !got[0].ExpiresAt.Equal(tt.expires) {
			t.Errorf("of a key that ends %s: %+v", tt.expires, got)
		}
	}
}

func TestOwnersAndAdminsAreAdminsOfEveryWorkspace(t *testing.T) {
	for _, tt := range []struct{ role, inside, want string }{
		{"owner", "", "admin"}, {"admin", "member", "admin"}, {"member", "manager", "manager"}, {"member", "", ""}, {"", "admin", ""},
	} {
		m := store.Membership{Role: tt.role, Workspaces: map[string]string{"w": tt.inside}}
		if got := m.RoleIn("w"); got != tt.want {
			t.Errorf("%s of the organisation, %s inside: %q, want %q", tt.role, tt.inside, got, tt.want)
		}
	}
}

func TestAPersonIsWhatTheirRowsSay(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		raw := mustRaw(t, dsn)
		mustRun(t, raw, `INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at) VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
		for id, organisation := range map[string]string{"w1": store.DefaultOrganisation, "w2": store.DefaultOrganisation, "w3": "other"} {
			mustRun(t, raw, `INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings, usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
				VALUES ('`+id+`', '`+organisation+`', '`+id+`', '', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`)
		}
		mustRun(t, raw, `INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u', 'u', '', '', '', 'active', 0, 0)`)
		mustRun(t, raw, `INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('`+store.DefaultOrganisation+`', 'u', 'member', 0, 0)`)
		mustRun(t, raw, `INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ('w1', 'u', 'manager', 0, 0), ('w3', 'u', 'admin', 0, 0)`)
		for _, tt := range []struct {
			organisation, user string
			want               store.Membership
		}{
			{store.DefaultOrganisation, "u", store.Membership{Role: "member", Workspaces: map[string]string{"w1": "manager"}}},
			{"other", "u", store.Membership{Workspaces: map[string]string{"w3": "admin"}}},
			{store.DefaultOrganisation, "nobody", store.Membership{Workspaces: map[string]string{}}},
		} {
			got, err := db.Membership(t.Context(), tt.organisation, tt.user)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("Membership(%s, %s): %v\n%s", tt.organisation, tt.user, err, diff)
			}
		}
	})
}

func TestKeysOfAPersonThatCountStillAreCounted(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		for i, change := range []func(*store.Key){
			func(*store.Key) {},
			func(k *store.Key) { k.Status, k.ExpiresAt = store.KeyExhausted, now.Add(time.Second) },
			func(k *store.Key) { k.ExpiresAt = now },
			func(k *store.Key) { k.Status = store.KeyExpired },
			func(k *store.Key) { k.Status = store.KeyRevoked },
			func(k *store.Key) { k.UserID = "you" },
			func(k *store.Key) { k.Workspace = "other" },
		} {
			k := sampleKey(fmt.Sprint(i))
			k.Type, k.UserID, k.Workspace = access.WorkspaceUser, "me", "w"
			change(&k)
			mustCreate(t, db, k)
		}
		if n, err := db.UserKeys(t.Context(), "w", "me", now); n != 2 || err != nil {
			t.Errorf("UserKeys() = %d, %v; want 2", n, err)
		}
	})
}

// expiredNote returns the event of a key that has expired, with an alert.
func expiredNote(k store.Key) *store.Audit {
	return &store.Audit{
		ID: "event of " + k.ID, Organisation: k.Organisation, Time: day, QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}", ResourceType: "api_key", ResourceID: k.ID,
		Action: "expired", Alert: &store.Alert{Type: "t", Data: raw(`{"name":"` + k.Name + `"}`)},
	}
}
