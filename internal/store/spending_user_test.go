package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

// mustAddUser adds a user to the default organisation.
func mustAddUser(t *testing.T, db *store.DB, id, email string) {
	t.Helper()
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.CreateUser(t.Context(), store.DefaultOrganisation, store.User{
			ID: id, Email: email, Status: store.Active, Role: "member", CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSpendCountsForUsers(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		long := strings.Repeat("a", 100) + "@example.com"
		mustAddUser(t, db, "u1", "ann@example.com")
		mustAddUser(t, db, "u2", long)
		mustAddUser(t, db, "u3", long+"x")
		mustAddUser(t, db, "u4", "kim@example.com")
		own, child, service := inDefault("own"), inDefault("child"), inDefault("service")
		own.ID, own.UserID, child.ID, service.ID = "k1", "u1", "k2", "k3"
		child.Origin.Lineage = []string{"k1"}
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return errors.Join(tx.CreateKey(t.Context(), own), tx.CreateKey(t.Context(), child), tx.CreateKey(t.Context(), service))
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = spend(t, db, "s", 64, 65, map[reqlog.SpendOwner]*reqlog.Spend{
			owner("k1", ""): {Cost: 1}, owner("k2", ""): {Cost: 10}, owner("k3", ""): {Cost: 100},
			owner("jwt:Ann@Example.com", ""): {Cost: 1000}, owner("jwt:u1", ""): {Cost: 10000},
			owner("jwt:carl@example.com", ""): {Cost: 100000}, owner("jwt:"+long, ""): {Cost: 5},
			owner("jwt:"+long[:70], ""):                                             {Cost: 200}, // nobody
			owner("jwt:\u212aim@example.com", ""):                                   {Cost: 400}, // nobody, with the Kelvin sign
			{Organisation: "another", Workspace: "w", KeyID: "jwt:ann@example.com"}: {Cost: 1000000},
		})
		if err != nil {
			t.Fatal(err)
		}
		first, second, third := store.UserID(store.DefaultOrganisation, "u1"), store.UserID(store.DefaultOrganisation, "u2"), store.UserID(store.DefaultOrganisation, "u3")
		got := mustSpending(t, db, store.UserBudget, first, second, third)
		if kim := mustSpending(t, db, store.UserBudget, store.UserID(store.DefaultOrganisation, "u4")); len(kim) != 0 {
			t.Errorf("an address that looks like another's counts for it: %v", kim)
		}
		if got[first].Cost != 11011 || got[second].Cost != 5 || got[third].Cost != 0 {
			t.Errorf("users spent %d, %d and %d; want 11011, 5 and 0", got[first].Cost, got[second].Cost, got[third].Cost)
		}
	})
}

func TestLimitsOfUsersArePublished(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustAddUser(t, db, "u1", "ann@example.com")
		mustAddUser(t, db, "u2", "bob@example.com")
		before, err := publication.Load(t.Context(), db, nil)
		if err != nil || len(before.Users) != 0 {
			t.Fatalf("published %+v, %v; want no users", before.Users, err)
		}
		err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
			u := store.User{ID: "u1", RateLimits: []byte(`[{"type":"requests","unit":"rpm","value":3}]`), UpdatedAt: time.UnixMilli(2)}
			setter := store.LimitSetter{Rank: 3, By: "u2"}
			ref := store.BudgetRef{Kind: store.UserBudget, ID: store.UserID(store.DefaultOrganisation, "u1")}
			return errors.Join(tx.SetUserLimits(t.Context(), store.DefaultOrganisation, u), tx.PutLimitSetter(t.Context(), ref, "rate_limits", setter))
		})
		if err != nil {
			t.Fatal(err)
		}
		after, err := publication.Load(t.Context(), db, before)
		if err != nil || len(after.Users) != 1 || after.Users[0].Email != "ann@example.com" || len(after.Users[0].Limits) != 1 || after.Users[0].Limits[0].Max != 3 {
			t.Fatalf("published %+v, %v; want the limit of u1", after.Users, err)
		}
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return tx.RemoveUser(t.Context(), store.DefaultOrganisation, "u1", time.UnixMilli(3))
		}); err != nil {
			t.Fatal(err)
		}
		after, err = publication.Load(t.Context(), db, after)
		if err != nil || len(after.Users) != 0 {
			t.Errorf("published %+v, %v after the user was removed", after.Users, err)
		}
		set, err := db.LimitSetters(t.Context(), store.BudgetRef{Kind: store.UserBudget, ID: store.UserID(store.DefaultOrganisation, "u1")})
		if err != nil || len(set) != 0 {
			t.Errorf("setters %v, %v after the user was removed", set, err)
		}
	})
}
