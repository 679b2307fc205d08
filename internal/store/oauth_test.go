package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// addGrant stores a grant of a new member, with a number in all its names.
func addGrant(t *testing.T, db *store.DB, n int, now time.Time) {
	t.Helper()
	id := fmt.Sprint(n)
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		u := store.User{ID: id, Email: id + "@example.com", Status: store.Active, Role: "member", CreatedAt: now, UpdatedAt: now}
		if err := tx.CreateUser(t.Context(), store.DefaultOrganisation, u); err != nil {
			return err
		}
		if err := tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, id, "member", now); err != nil {
			return err
		}
		return tx.AddOAuthGrant(t.Context(), store.OAuthGrant{
			ID: id, Organisation: store.DefaultOrganisation, UserID: id, Workspace: store.DefaultWorkspace, Client: "c", CreatedAt: now,
		}, store.OAuthProof{Grant: id, CodeHash: "code" + id, EndsAt: now.Add(time.Hour)}, store.GrantLimits{User: 1, Organisation: 10, Code: time.Minute})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACodeOfAClientIsUsedOnceOverNodes(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open()}
		now := time.UnixMilli(1_000_000_000)
		addGrant(t, nodes[0], 1, now)
		p, err := nodes[1].OAuthProofByCode(t.Context(), "code1")
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range [][2]string{{"", "one"}, {"one", "two"}} { // the code, then a refresh token
			var done atomic.Int64
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					next := p
					next.CodeUsedAt, next.FamilyHash, next.TokenHash = now, "family", step[1]
					ok, err := nodes[i%2].ReplaceOAuthProof(t.Context(), next, step[0])
					if err != nil {
						t.Error(err)
					}
					if ok {
						done.Add(1)
					}
				})
			}
			all.Wait()
			if n := done.Load(); n != 1 {
				t.Errorf("%q was used %d times", step[0], n)
			}
		}
	})
}

func TestGrantsEndWithTheirUsers(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now := open(), time.UnixMilli(1_000_000_000)
		for i, end := range []func(tx *store.Tx, user string) error{
			func(tx *store.Tx, user string) error {
				return tx.UpdateUser(t.Context(), store.User{ID: user, Status: "inactive", UpdatedAt: now})
			},
			func(tx *store.Tx, user string) error {
				return tx.SetMemberStatus(t.Context(), store.DefaultOrganisation, user, "inactive", now)
			},
			func(tx *store.Tx, user string) error {
				return tx.RemoveWorkspaceMember(t.Context(), store.DefaultWorkspace, user, now)
			},
			func(tx *store.Tx, user string) error {
				return tx.RemoveUser(t.Context(), store.DefaultOrganisation, user, now)
			},
		} {
			addGrant(t, db, i, now)
			if ok, err := db.IsGrantUsable(t.Context(), fmt.Sprint(i)); !ok || err != nil {
				t.Fatalf("before: %t, %v", ok, err)
			}
			if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return end(tx, fmt.Sprint(i)) }); err != nil {
				t.Fatal(err)
			}
			if _, err := db.OAuthGrant(t.Context(), fmt.Sprint(i)); !apierr.IsNotFound(err) {
				t.Errorf("the grant of user %d: %v", i, err)
			}
			if _, err := db.OAuthProofByCode(t.Context(), "code"+fmt.Sprint(i)); !apierr.IsNotFound(err) {
				t.Errorf("the code of user %d: %v", i, err)
			}
		}
	})
}

func TestGrantsOfAnOrganisationAreBounded(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now := open(), time.UnixMilli(1_000_000_000)
		for i := range 10 {
			addGrant(t, db, i, now)
		}
		add := func(at time.Time) error {
			return db.Update(t.Context(), nil, func(tx *store.Tx) error {
				return tx.AddOAuthGrant(t.Context(), store.OAuthGrant{
					ID: "more", Organisation: store.DefaultOrganisation, UserID: "0", Workspace: store.DefaultWorkspace, CreatedAt: at,
				}, store.OAuthProof{Grant: "more", CodeHash: "more", EndsAt: at.Add(time.Hour)}, store.GrantLimits{User: 2, Organisation: 10, Code: time.Minute})
			})
		}
		if err := add(now); apierr.From(err).Kind != apierr.RateLimited {
			t.Errorf("one more than the organisation may have: %v", err)
		}
		if err := add(now.Add(time.Minute)); err != nil { // no code of the others was used
			t.Errorf("after the codes expired: %v", err)
		}
	})
}
