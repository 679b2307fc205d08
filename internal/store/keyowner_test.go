package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestKeysHaveOwners(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		for _, k := range [][3]string{{"a", store.DefaultWorkspace, "mia"}, {"b", store.DefaultWorkspace, "bo"}, {"c", store.DefaultWorkspace, ""}} {
			key := store.Key{ID: k[0], Name: k[0], Organisation: store.DefaultOrganisation, Workspace: k[1], UserID: k[2], Type: "user", Status: store.Active, CreatedAt: exportTime, UpdatedAt: exportTime}
			key.Hash[0] = k[0][0]
			change(t, db, func(tx *store.Tx) error { return tx.CreateKey(t.Context(), key) })
		}
		for at, want := range map[[2]string]map[string]string{
			{store.DefaultOrganisation, ""}: {"a": "mia", "b": "bo"}, {store.DefaultOrganisation, store.DefaultWorkspace}: {"a": "mia", "b": "bo"},
			{store.DefaultOrganisation, "none"}: {}, {"other", ""}: {},
		} {
			got, err := db.KeyOwners(t.Context(), at[0], at[1])
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("owners in %v: %v\n%s", at, err, diff)
			}
		}
	})
}
