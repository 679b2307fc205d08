package store_test

import (
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestNamesOfEveryTypeAreRead(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		list := []store.Audit{{Workspace: store.DefaultWorkspace, ResourceType: "cache", ResourceID: "everything", UserType: "operator", UserID: "root"}}
		for _, kind := range store.NamedTypes {
			list = append(list, store.Audit{ResourceType: kind, ResourceID: "missing", UserType: "user", UserID: "missing"})
		}
		names, err := db.AuditNames(t.Context(), store.DefaultOrganisation, list)
		if err != nil || len(names) != len(list) {
			t.Fatalf("%d names, %v", len(names), err)
		}
		for i, n := range names {
			want := store.AuditNames{Organisation: "Default"}
			if i == 0 {
				want.Workspace = "Default"
			}
			if n != want {
				t.Errorf("of the type %s: %+v, want %+v", list[i].ResourceType, n, want)
			}
		}
	})
}
