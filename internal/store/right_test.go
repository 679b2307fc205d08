package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

func TestSettingsOfAnOrganisationAreReadAsTheyWereWritten(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		o, err := db.Organisation(t.Context(), "default")
		if diff := cmp.Diff(store.OrganisationSettings{}, o.Settings); diff != "" || err != nil {
			t.Errorf("from the start: %v\n%s", err, diff)
		}
		seconds := int64(60)
		o.Settings = store.OrganisationSettings{
			Security: access.RolePermissions{"membersViewPrompts": false}, Overridable: []access.Section{"prompts"},
			UserKeyPolicy: store.UserKeyPolicy{TTL: &seconds}, Logging: store.LoggingNone, BlockInlineConfig: true,
			DeniedFields: []string{"request"}, InputGuardrails: []string{"g"},
		}
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateOrganisation(t.Context(), o) }); err != nil {
			t.Fatal(err)
		}
		got, err := db.Organisation(t.Context(), o.ID)
		if diff := cmp.Diff(o, got); diff != "" || err != nil {
			t.Errorf("Organisation: %v\n%s", err, diff)
		}
		p, err := publication.Load(t.Context(), db, nil)
		if err != nil || !p.SavedOnly[o.ID] || len(p.SavedOnly) != 1 {
			t.Errorf("published: %v, %v", p.SavedOnly, err)
		}
	})
}

func TestAWorkspaceOverridesTheSwitchesItMay(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		o, err := db.Organisation(t.Context(), store.DefaultOrganisation)
		if err != nil {
			t.Fatal(err)
		}
		w, err := db.Workspace(t.Context(), o.ID, store.DefaultWorkspace)
		if err != nil {
			t.Fatal(err)
		}
		o.Settings.Security = access.RolePermissions{"membersWriteConfigs": true, "membersViewPrompts": false}
		o.Settings.Overridable = []access.Section{"prompts"}
		w.SecuritySettings = []byte(`{"membersWriteConfigs":false,"membersViewPrompts":true}`)
		err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
			if err := tx.UpdateOrganisation(t.Context(), o); err != nil {
				return err
			}
			return tx.UpdateWorkspace(t.Context(), w)
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := db.RolePermissions(t.Context(), o.ID, w.ID)
		if err != nil || !s["membersWriteConfigs"] || !s["membersViewPrompts"] || !s["membersViewLogs"] {
			t.Errorf("Switches = %v, %v", s, err)
		}
		if s, err := db.RolePermissions(t.Context(), "elsewhere", w.ID); err == nil {
			t.Errorf("another organisation's Switches = %v, want an error", s)
		}
	})
}

func TestMembersThatLeaveLoseTheirKeys(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		now := time.UnixMilli(1_700_000_000_000).UTC()
		change := func(f func(tx *store.Tx) error) {
			t.Helper()
			if err := db.Update(t.Context(), nil, f); err != nil {
				t.Fatal(err)
			}
		}
		change(func(tx *store.Tx) error { return addSettlement(t, tx, now) })
		list, total, err := db.Workspaces(t.Context(), store.WorkspaceQuery{Organisation: store.DefaultOrganisation, Member: "u"}, store.Page{})
		if err != nil || total != 1 || list[0].ID != second {
			t.Errorf("their workspaces: %v, %d, %v", list, total, err)
		}
		change(func(tx *store.Tx) error {
			return tx.SetUserRole(t.Context(), store.DefaultOrganisation, "u", "member", now)
		})
		if got := active(t, db); !slices.Equal(got, []string{"another's", "there"}) {
			t.Errorf("of a member of the second workspace: %v", got)
		}
		change(func(tx *store.Tx) error { return tx.RemoveWorkspaceMember(t.Context(), second, "u", now) })
		if got := active(t, db); !slices.Equal(got, []string{"another's"}) {
			t.Errorf("of a member of none: %v", got)
		}
		ids, err := db.KeyIDs(t.Context(), store.DefaultOrganisation, second, "u")
		if err != nil || !slices.Equal(ids, []string{"there"}) {
			t.Errorf("KeyIDs = %v, %v, want the one that has ended", ids, err)
		}
	})
}

const second = "00000000-0000-7000-8000-000000000009" // a workspace

// addSettlement makes the user u, an admin of the organisation and a member of the
// second workspace, with a key in each, and somebody else's key.
func addSettlement(t *testing.T, tx *store.Tx, now time.Time) error {
	u := store.User{ID: "u", Email: "u@example.com", Status: store.Active, Role: "admin", CreatedAt: now, UpdatedAt: now}
	w := store.Workspace{ID: second, Organisation: store.DefaultOrganisation, Slug: "second", Name: "s", Status: store.Active, CreatedAt: now, UpdatedAt: now}
	errs := []error{
		tx.CreateUser(t.Context(), store.DefaultOrganisation, u),
		tx.CreateWorkspace(t.Context(), w),
		tx.SetWorkspaceMember(t.Context(), second, "u", "member", now),
	}
	for id, of := range map[string][2]string{"here": {store.DefaultWorkspace, "u"}, "there": {second, "u"}, "another's": {second, "another"}} {
		errs = append(errs, tx.CreateKey(t.Context(), store.Key{
			ID: id, Type: access.WorkspaceUser, UserID: of[1], Name: "k", Workspace: of[0], Hash: access.HashKey(id), CreatedAt: now,
		}))
	}
	return errors.Join(errs...)
}

// active returns the ids of the keys that count, in order.
func active(t *testing.T, db *store.DB) (ids []string) {
	t.Helper()
	all, err := db.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Status == store.KeyActive {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

func TestAnAuditLogThatIsOffIsNotWritten(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		for _, off := range []bool{true, false} {
			db, err := store.Open(t.Context(), dsn, store.Options{NoAudit: off})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			at := time.UnixMilli(1_700_000_000_000)
			for _, note := range []func(*store.Audit) error{
				func(a *store.Audit) error { return db.AddAudit(t.Context(), a) },
				func(a *store.Audit) error { return db.Update(t.Context(), a, func(*store.Tx) error { return nil }) },
				func(a *store.Audit) error {
					k := inDefault(fmt.Sprint("due ", off))
					k.RotationDueAt = at
					mustCreate(t, db, k)
					_, err := db.MarkRotationsDue(t.Context(), at, func(store.Key) *store.Audit { return a })
					return err
				},
			} {
				if err := note(&store.Audit{ID: time.Now().String(), Organisation: "o", Time: at}); err != nil {
					t.Fatal(err)
				}
			}
			_, total, err := db.Audits(t.Context(), store.AuditQuery{Organisation: "o", From: at, To: at.Add(1e9)}, store.Page{})
			if want := map[bool]int{true: 0, false: 3}[off]; total != want || err != nil {
				t.Errorf("off %t: %d rows, %v, want %d", off, total, err, want)
			}
		}
	})
}
