package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func addObject(t *testing.T, db *store.DB, o store.Object) {
	t.Helper()
	o.CreatedAt, o.UpdatedAt = time.UnixMilli(1), time.UnixMilli(1)
	if err := db.Transact(t.Context(), func(tx *store.Tx) error { return tx.AddObject(t.Context(), o) }); err != nil {
		t.Fatal(err)
	}
}

func TestObjectsBelongToAWorkspace(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		addObject(t, db, store.Object{ID: "gw_file_1", Kind: store.ObjectFile, Workspace: "w1", ProviderID: "file-a", Provider: "@p", Size: 3})
		addObject(t, db, store.Object{ID: "gw_file_2", Kind: store.ObjectFile, Workspace: "w2", ProviderID: "file-a", Provider: "@p", Size: 5})
		for _, id := range []string{"gw_file_1", "file-a"} {
			if o, err := db.Object(t.Context(), "w1", store.ObjectFile, id); err != nil || o.ID != "gw_file_1" {
				t.Errorf("%s: %+v, %v", id, o, err)
			}
		}
		var texts []string
		for _, id := range []string{"gw_file_2", "gw_file_3"} {
			_, err := db.Object(t.Context(), "w1", store.ObjectFile, id)
			if e := apierr.From(err); e.Kind != apierr.NotFound {
				t.Errorf("%s: %v, want not found", id, err)
			}
			texts = append(texts, err.Error())
		}
		if texts[0] != texts[1] {
			t.Errorf("a foreign object and an unknown one differ: %q", texts)
		}
		if _, err := db.Object(t.Context(), "w1", store.ObjectBatch, "gw_file_1"); apierr.From(err).Kind != apierr.NotFound {
			t.Errorf("a file was found as a batch: %v", err)
		}
		if n, err := db.ObjectBytes(t.Context(), "w1"); n != 3 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := db.ObjectBytes(t.Context(), "w9"); n != 0 || err != nil {
			t.Errorf("%d bytes of nothing, %v", n, err)
		}
	})
}

func TestPagesOfObjectsNeitherSkipNorRepeat(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		for i := range 9 {
			addObject(t, db, store.Object{ID: fmt.Sprint("f", i), Kind: store.ObjectFile, Workspace: "w", Label: "batch"})
		}
		for _, ascending := range []bool{false, true} {
			var seen []string
			q := store.ObjectQuery{Workspace: "w", Kind: store.ObjectFile, Label: "batch", Limit: 2, Ascending: ascending}
			for more := true; more; {
				var list []store.Object
				var err error
				if list, more, err = db.Objects(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				for _, o := range list {
					seen = append(seen, o.ID)
				}
				q.After = list[len(list)-1].ID
				if len(seen) == 2 { // one that was shown and one that is to come
					for _, id := range []string{seen[1], fmt.Sprint("x", ascending)} {
						db.Transact(t.Context(), func(tx *store.Tx) error { return tx.DeleteObject(t.Context(), &store.Object{ID: id}) })
					}
				}
			}
			want := []string{"f8", "f7", "f6", "f5", "f4", "f3", "f2", "f1", "f0"}
			if ascending {
				want = []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f8"}
			}
			if !slices.Equal(seen, want) {
				t.Errorf("ascending %v: %v, want %v", ascending, seen, want)
			}
		}
	})
}

func TestAnObjectChangesFromTheVersionThatWasRead(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		addObject(t, db, store.Object{ID: "b", Kind: store.ObjectBatch, Workspace: "w", State: "validating"})
		first, err := db.ObjectByID(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		second := first
		update := func(o *store.Object) error {
			return db.Transact(t.Context(), func(tx *store.Tx) error { return tx.UpdateObject(t.Context(), o) })
		}
		first.State, first.ExpiresAt = "in_progress", time.UnixMilli(5)
		if err := update(&first); err != nil {
			t.Fatal(err)
		}
		second.State = "failed"
		if err := update(&second); apierr.From(err).Kind != apierr.Conflict {
			t.Errorf("an old version was stored: %v", err)
		}
		if o, _ := db.ObjectByID(t.Context(), "b"); o.State != "in_progress" || o.Version != first.Version {
			t.Errorf("%+v", o)
		}
		if list, err := db.ExpiredObjects(t.Context(), time.UnixMilli(5), 9); len(list) != 1 || err != nil {
			t.Errorf("expired: %v, %v", list, err)
		}
		if list, err := db.ExpiredObjects(t.Context(), time.UnixMilli(4), 9); len(list) != 0 || err != nil {
			t.Errorf("expired early: %v, %v", list, err)
		}
		first.ID = "unknown"
		if err := update(&first); apierr.From(err).Kind != apierr.NotFound {
			t.Errorf("an object that does not exist was stored: %v", err)
		}
	})
}
