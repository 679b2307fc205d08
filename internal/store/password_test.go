package store_test

import (
	"errors"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestAFirstPasswordIsOnlyForMembersWithoutOne(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now := open(), time.UnixMilli(1_000_000)
		absent := func(err error) bool {
			e, ok := errors.AsType[*apierr.Error](err)
			return ok && e.Kind == apierr.NotFound
		}
		user := func(id, status, password string) store.User {
			return store.User{ID: id, Email: id + "@example.com", Status: status, PasswordHash: password, Role: "member", CreatedAt: now, UpdatedAt: now}
		}
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			other := store.Organisation{ID: "other", Slug: "other", Name: "Other", Status: store.Active, CreatedAt: now, UpdatedAt: now}
			home := store.Workspace{ID: "home", Organisation: "other", Slug: "home", Name: "Home", IsDefault: true, Status: store.Active, CreatedAt: now, UpdatedAt: now}
			err := tx.CreateOrganisation(t.Context(), other, home, store.PromptCollection{ID: "folder", Slug: "co-default", CreatedAt: now})
			for _, u := range []store.User{user("new", store.Active, ""), user("old", store.Active, "theirs"), user("off", "disabled", ""), user("both", store.Active, "")} {
				err = errors.Join(err, tx.CreateUser(t.Context(), store.DefaultOrganisation, u))
			}
			err = errors.Join(err, tx.JoinOrganisation(t.Context(), "other", user("both", "", "")))
			return errors.Join(err, tx.CreateUser(t.Context(), "other", user("away", store.Active, "")))
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			id   string
			want bool
		}{{"new", true}, {"new", false}, {"old", false}, {"off", false}, {"both", false}, {"away", false}, {"nobody", false}} {
			err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
				return tx.SetFirstPassword(t.Context(), store.DefaultOrganisation, user(tt.id, "", "mine"))
			})
			if tt.want && err != nil || !tt.want && !absent(err) {
				t.Errorf("a first password of %s: %v", tt.id, err)
			}
		}
		take := func(hash string, at time.Time) (l store.PasswordLink, err error) {
			err = db.Update(t.Context(), nil, func(tx *store.Tx) (err error) {
				l, err = tx.ConsumePasswordLink(t.Context(), hash, at)
				return err
			})
			return l, err
		}
		for _, hash := range []string{"first", "second"} {
			l := store.PasswordLink{UserID: "new", Hash: hash, Organisation: store.DefaultOrganisation, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
			if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.ReplacePasswordLink(t.Context(), l) }); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			hash string
			at   time.Time
			want bool
		}{{"first", now, false}, {"second", now.Add(time.Hour), false}, {"second", now, true}, {"second", now, false}} {
			l, err := take(tt.hash, tt.at)
			if tt.want && (err != nil || l.UserID != "new" || !l.ExpiresAt.Equal(now.Add(time.Hour))) || !tt.want && !absent(err) {
				t.Errorf("taking %s at %s: %+v, %v", tt.hash, tt.at, l, err)
			}
		}
	})
}
