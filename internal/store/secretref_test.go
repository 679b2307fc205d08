package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestSecretReferencesAreStored(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		now := time.UnixMilli(1_700_000_000_000).UTC()
		s := store.SecretReference{
			ID: "s1", Organisation: store.DefaultOrganisation, Slug: "s", Name: "S", Description: "d", Manager: "file",
			Auth: map[string]string{"a": "b"}, Sealed: "sealed", Path: "p", Key: "k", Workspaces: []string{store.DefaultWorkspace},
			Providers: []string{"openai"}, Hosts: []string{"https://models.example.com"}, Tags: map[string]string{"team": "a"}, CreatedAt: now, UpdatedAt: now,
		}
		change := func(f func(tx *store.Tx) error) error { return db.Update(t.Context(), nil, f) }
		if err := change(func(tx *store.Tx) error { return tx.CreateSecretReference(t.Context(), s) }); err != nil {
			t.Fatal(err)
		}
		twice := s
		twice.ID = "s2"
		err := change(func(tx *store.Tx) error { return tx.CreateSecretReference(t.Context(), twice) })
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Conflict {
			t.Errorf("a slug twice: %v, want a conflict", err)
		}
		s.Name, s.AllWorkspaces, s.Workspaces, s.Hosts, s.UpdatedAt = "S2", true, []string{}, []string{}, now.Add(time.Second)
		if err := change(func(tx *store.Tx) error { return tx.UpdateSecretReference(t.Context(), s) }); err != nil {
			t.Fatal(err)
		}
		got, err := db.SecretReference(t.Context(), store.DefaultOrganisation, "s")
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Errorf("SecretReference: %v\n%s", err, diff)
		}
		list, total, err := db.SecretReferences(t.Context(), store.SecretReferenceFilter{Organisation: store.DefaultOrganisation, Search: "s2"}, store.Page{})
		if err != nil || total != 1 || len(list) != 1 {
			t.Errorf("SecretReferences = %v, %d, %v", list, total, err)
		}
		if n, err := db.SecretReferenceUsers(t.Context(), store.DefaultOrganisation, "s1"); n != 0 || err != nil {
			t.Errorf("SecretReferenceUsers = %d, %v", n, err)
		}
		if err := change(func(tx *store.Tx) error { return tx.DeleteSecretReference(t.Context(), "s1") }); err != nil {
			t.Error(err)
		}
	})
}
