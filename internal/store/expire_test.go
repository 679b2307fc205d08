package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestExpiredRowsAreMarkedOrRemoved(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db, raw := storetest.Open(t, dsn), mustRaw(t, dsn)
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		past, future := fmt.Sprint(now.UnixMilli()), fmt.Sprint(now.UnixMilli()+1)
		mustRun(t, raw, `INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u', 'u', '', '', '', 'active', 0, 0)`)
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return addEntry(t, tx) })
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range []struct{ status, ends string }{{"active", past}, {"exhausted", past}, {"archived", past}, {"active", future}, {"active", "NULL"}} {
			mustRun(t, raw, fmt.Sprintf(`INSERT INTO providers (id, organisation_id, workspace_id, integration_id, slug, name, note, usage_limits, rate_limits, tags, made_by_grant, status, created_at, updated_at, expires_at)
				VALUES ('p-%d', '%s', '%s', 'i1', 'p-%d', '', '', 'null', '[]', '{}', FALSE, '%s', 0, 0, %s)`, i, store.DefaultOrganisation, store.DefaultWorkspace, i, row.status, row.ends))
		}
		for i, row := range []struct{ status, ends string }{{"pending", past}, {"accepted", past}, {"cancelled", past}, {"pending", future}} {
			mustRun(t, raw, fmt.Sprintf(`INSERT INTO invites (id, organisation_id, email, role, workspaces, key_details, token_hash, status, invited_by, created_at, expires_at)
				VALUES ('v-%d', '%s', 'v-%d', 'member', '[]', 'null', 'v-%d', '%s', '', 0, %s)`, i, store.DefaultOrganisation, i, i, row.status, row.ends))
		}
		for _, ends := range []string{past, future} {
			mustRun(t, raw, fmt.Sprintf(`INSERT INTO sessions (hash, id, user_id, organisation_id, address, user_agent, created_at, last_used_at, expires_at) VALUES ('s-%s', 's-%s', 'u', '%s', '', '', 0, 0, %s)`, ends, ends, store.DefaultOrganisation, ends))
			mustRun(t, raw, fmt.Sprintf(`INSERT INTO claims (hash, organisation_id, created_at, expires_at) VALUES ('c-%s', '%s', 0, %s)`, ends, store.DefaultOrganisation, ends))
			mustRun(t, raw, fmt.Sprintf(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u-%s', 'u-%s', '', '', '', 'active', 0, 0)`, ends, ends))
			mustRun(t, raw, fmt.Sprintf(`INSERT INTO password_links (user_id, hash, organisation_id, resets, by_operator, created_at, expires_at) VALUES ('u-%s', 'l-%s', '%s', FALSE, FALSE, 0, %s)`, ends, ends, store.DefaultOrganisation, ends))
		}
		before, err := db.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var reported []string
		mark := func() {
			t.Helper()
			if err := db.MarkEnded(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			err := db.MarkProvidersExpired(t.Context(), now, func(p store.Provider) *store.Audit {
				reported = append(reported, p.ID)
				return &store.Audit{ID: "e-" + p.ID, Organisation: p.Organisation, Time: now, QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}"}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		mark()
		mustRevision(t, db, before+5)
		for query, want := range map[string]string{
			`SELECT status FROM providers WHERE id LIKE 'p-%' ORDER BY id`: "expired expired archived active active",
			`SELECT status FROM invites ORDER BY id`:                       "expired accepted cancelled pending",
			`SELECT hash FROM sessions`:                                    "s-" + future,
			`SELECT hash FROM claims`:                                      "c-" + future,
			`SELECT hash FROM password_links`:                              "l-" + future,
		} {
			if got := strings.Join(mustTexts(t, dsn, query), " "); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		mark()
		mustRevision(t, db, before+5)
		if len(reported) != 2 {
			t.Errorf("reported %v, want each of two providers once", reported)
		}
	})
}

// mustTexts returns what a query selects: one text a row.
func mustTexts(t *testing.T, dsn, query string) []string {
	t.Helper()
	rows, err := mustRaw(t, dsn).QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAnInvalidRowIsNotAConflict(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		now := time.Now()
		w := store.Workspace{ID: "w", Organisation: store.DefaultOrganisation, Slug: "w", Name: "W", Status: store.Active, CreatedAt: now, UpdatedAt: now}
		for _, tt := range []struct {
			name     string
			change   func(*store.Workspace)
			conflict bool
		}{
			{"one that is well", func(*store.Workspace) {}, false},
			{"an id that exists", func(w *store.Workspace) { w.Slug = "other" }, true},
			{"a slug that exists", func(w *store.Workspace) { w.ID = "other" }, true},
			{"an organisation that does not", func(w *store.Workspace) { w.ID, w.Slug, w.Organisation = "x", "x", "none" }, true},
			{"a value that lacks", func(w *store.Workspace) { w.ID, w.Slug, w.CreatedAt = "y", "y", time.Time{} }, false},
			{"a state that there is not", func(w *store.Workspace) { w.ID, w.Slug, w.Status = "z", "z", "odd" }, false},
		} {
			row := w
			tt.change(&row)
			err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.CreateWorkspace(t.Context(), row) })
			e := apierr.From(err)
			if well := tt.name == "one that is well"; well != (err == nil) {
				t.Errorf("%s: %v", tt.name, err)
			} else if !well && (e.Kind == apierr.Conflict) != tt.conflict || !well && !tt.conflict && e.Kind != apierr.Internal {
				t.Errorf("%s: kind %d (%v), want a conflict: %t", tt.name, e.Kind, err, tt.conflict)
			}
		}
	})
}

func TestADueRotationIsReportedOnce(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, other := open(), open()
		now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
		keys := map[string]store.Key{}
		for name, change := range map[string]func(*store.Key){
			"due":       func(k *store.Key) { k.RotationDueAt = now },
			"used up":   func(k *store.Key) { k.RotationDueAt, k.Status = now.Add(-time.Hour), store.KeyExhausted },
			"not yet":   func(k *store.Key) { k.RotationDueAt = now.Add(time.Millisecond) },
			"never":     func(*store.Key) {},
			"revoked":   func(k *store.Key) { k.RotationDueAt, k.Status = now, store.KeyRevoked },
			"has ended": func(k *store.Key) { k.RotationDueAt, k.Status = now, store.KeyExpired },
		} {
			k := inDefault(name)
			change(&k)
			keys[name] = k
			mustCreate(t, db, k)
		}
		reported := func(db *store.DB, now time.Time) string {
			t.Helper()
			due, err := db.MarkRotationsDue(t.Context(), now, func(k store.Key) *store.Audit {
				return &store.Audit{ID: "a-" + k.ID + fmt.Sprint(now.Unix()), Organisation: k.Organisation, Time: now, ResourceID: k.ID, Action: "rotation_due"}
			})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, k := range due {
				names = append(names, k.Name)
			}
			slices.Sort(names)
			return strings.Join(names, ", ")
		}
		if got := reported(db, now); got != "due, used up" {
			t.Errorf("reported %q", got)
		}
		if got := reported(other, now); got != "" {
			t.Errorf("another process gets %q", got)
		}
		_, n, err := db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, From: now, To: now.Add(1e9), Action: "rotation_due"}, store.Page{})
		if n != 2 || err != nil {
			t.Errorf("%d rows in the audit log, %v", n, err)
		}
		k := keys["due"]
		k.RotationDueAt = now.AddDate(0, 0, 7) // it was rotated
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateKey(t.Context(), k) }); err != nil {
			t.Fatal(err)
		}
		if got := reported(db, now.AddDate(0, 0, 7)); got != "due, not yet" {
			t.Errorf("a week later: %q", got)
		}
	})
}
