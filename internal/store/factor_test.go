package store_test

import (
	"errors"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// TestAOneTimeCodeIsSpentOnce covers two nodes that read the same row before either writes.
func TestAOneTimeCodeIsSpentOnce(t *testing.T) { storetest.Run(t, testOneTimeCode) }

func testOneTimeCode(t *testing.T, open func() *store.DB) {
	db := open()
	now := time.Now()
	o := store.OneTimeCode{Organisation: store.DefaultOrganisation, UserID: "ada", Sealed: "s", LastStep: 7, CreatedAt: now}
	p := store.Passkey{ID: "p", Organisation: store.DefaultOrganisation, UserID: "ada", CredentialID: "c", Handle: "h", RPID: "localhost", SignCount: 3, CreatedAt: now}
	change := func(f func(tx *store.Tx) error) error { return db.Update(t.Context(), nil, f) }
	err := change(func(tx *store.Tx) error {
		u := store.User{ID: "ada", Email: "ada@example.com", Status: store.Active, Role: "member", CreatedAt: now, UpdatedAt: now}
		return errors.Join(tx.CreateUser(t.Context(), o.Organisation, u), tx.SetOneTimeCode(t.Context(), o), tx.CreatePasskey(t.Context(), p))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		step   int64
		sealed string
		ok     bool
	}{{7, "s", false}, {8, "another", false}, {8, "s", true}, {8, "s", false}, {7, "s", false}, {9, "s", true}} {
		of := o
		of.Sealed = tt.sealed
		err := change(func(tx *store.Tx) error { return tx.SpendStep(t.Context(), of, tt.step) })
		if (err == nil) != tt.ok || err != nil && !apierr.IsNotFound(err) {
			t.Errorf("SpendStep(%d, %s) = %v", tt.step, tt.sealed, err)
		}
	}
	after := p
	after.SignCount = 4
	for i, want := range []bool{true, false} {
		if err := change(func(tx *store.Tx) error { return tx.UsePasskey(t.Context(), p, after) }); (err == nil) != want {
			t.Errorf("use %d: %v", i, err)
		}
	}
	now = now.Add(time.Second)
	session := store.Session{Hash: "full", ID: "full", UserID: "ada", Organisation: o.Organisation, CreatedAt: now, ExpiresAt: now.Add(time.Hour), Method: store.MethodPassword}
	err = change(func(tx *store.Tx) error { // the statements that both databases must know
		if err := tx.CreateSession(t.Context(), session); err != nil {
			return err
		}
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
			waiting := session
			waiting.Hash, waiting.ID, waiting.Pending = id, id, store.PendingFactor
			if err := tx.CreateSession(t.Context(), waiting); err != nil {
				return err
			}
		}
		n, err := tx.OwnersWithoutPassword(t.Context(), o.Organisation)
		if err == nil && n != 0 {
			t.Errorf("%d owners", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := db.Sessions(t.Context(), o.Organisation, "ada"); err != nil || len(list) != 11 {
		t.Errorf("%d sessions, %v; want ten that wait, and the other", len(list), err)
	}
	err = change(func(tx *store.Tx) error {
		if err := tx.EndWeakSessions(t.Context(), o.Organisation); err != nil {
			return err
		}
		_, err := tx.DeleteFactors(t.Context(), o.Organisation, "ada")
		return err
	})
	if list, _ := db.Sessions(t.Context(), o.Organisation, "ada"); err != nil || len(list) != 0 {
		t.Errorf("%d sessions are left, %v", len(list), err)
	}
}
