package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

var exportTime = time.UnixMilli(1_700_000_000_000).UTC()

func draft(id string) store.Export {
	return store.Export{
		ID: id, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Format: "csv",
		Filters: []byte(`{"a":1}`), Requested: []string{"id", "cost"}, Status: store.ExportDraft,
		UserID: "u", CreatedBy: "u", CreatedAt: exportTime, UpdatedAt: exportTime,
	}
}

func mustExport(t *testing.T, db *store.DB, e store.Export) {
	t.Helper()
	if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.CreateExport(t.Context(), e) }); err != nil {
		t.Fatal(err)
	}
}

func running(id string) store.Export {
	e := draft(id)
	e.Status, e.StartedAt, e.Keys = store.ExportRunning, exportTime, []string{"k1"}
	return e
}

func TestExportsAreStored(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		e := draft("e1")
		mustExport(t, db, e)
		mustExport(t, db, draft("e2"))
		got, err := db.Export(t.Context(), "e1")
		if diff := cmp.Diff(e, got); diff != "" || err != nil {
			t.Fatalf("Export: %v\n%s", err, diff)
		}
		n := int64(7)
		e.Status, e.Filters, e.Requested, e.Format, e.Keys, e.Expected = store.ExportRunning, []byte(`{}`), []string{"id"}, "jsonl", []string{}, &n
		e.StartedAt, e.UpdatedAt = exportTime.Add(time.Second), exportTime.Add(time.Second)
		change := func() error {
			return db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateExport(t.Context(), e, store.ExportDraft) })
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := change(); apierr.From(err).Kind != apierr.NotFound {
			t.Errorf("a change of a draft that is none any more: %v", err)
		}
		got, err = db.Export(t.Context(), "e1")
		if diff := cmp.Diff(e, got); diff != "" || err != nil {
			t.Errorf("Export after a change: %v\n%s", err, diff)
		}
		for _, tt := range []struct {
			q    store.ExportQuery
			want int
		}{
			{store.ExportQuery{Organisation: store.DefaultOrganisation}, 2},
			{store.ExportQuery{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, UserID: "u"}, 2},
			{store.ExportQuery{Organisation: store.DefaultOrganisation, UserID: "v"}, 0},
			{store.ExportQuery{Organisation: store.DefaultOrganisation, Workspace: "w"}, 0},
			{store.ExportQuery{Organisation: "o", Archived: true}, 0},
		} {
			list, total, err := db.Exports(t.Context(), tt.q, store.Page{Size: 1})
			if err != nil || total != tt.want || len(list) != min(1, tt.want) {
				t.Errorf("Exports(%+v) = %d of %d, %v; want %d", tt.q, len(list), total, err, tt.want)
			}
		}
	})
}

func TestAnExportIsClaimedOnce(t *testing.T) {
	const exports, workers = 100, 8
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open(), open(), open()}
		for i := range exports {
			mustExport(t, nodes[0], running(fmt.Sprintf("e%02d", i)))
		}
		var mu sync.Mutex
		claimed := make(map[string]int)
		var work sync.WaitGroup
		for i := range workers {
			work.Go(func() {
				for range exports { // one that is lost to another worker is tried for again
					c, ok, err := nodes[i%len(nodes)].ClaimExport(t.Context(), fmt.Sprintf("node-%d", i), exportTime, time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						mu.Lock()
						claimed[c.ID]++
						mu.Unlock()
					}
				}
			})
		}
		work.Wait()
		for id, n := range claimed {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
		if len(claimed) != exports {
			t.Errorf("%d of %d were claimed", len(claimed), exports)
		}
	})
}

func TestALeaseThatEndsIsTakenOver(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustExport(t, db, running("e"))
		claim := func(node string, now time.Time) (store.ExportLease, bool) {
			t.Helper()
			c, ok, err := db.ClaimExport(t.Context(), node, now, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return c, ok
		}
		first, ok := claim("a", exportTime)
		if !ok || first.ID != "e" || first.Node != "a" || len(first.Keys) != 1 {
			t.Fatalf("ClaimExport = %+v, %t", first, ok)
		}
		first.Rows, first.Bytes, first.File = 3, 30, "f"
		if held, err := db.RenewExportLease(t.Context(), first, exportTime.Add(50*time.Second), time.Minute); !held || err != nil {
			t.Errorf("HoldExport = %t, %v", held, err)
		}
		if _, ok := claim("b", exportTime.Add(100*time.Second)); ok {
			t.Error("a lease that was renewed was taken over")
		}
		second, ok := claim("b", exportTime.Add(111*time.Second))
		if !ok || second.File != "f" || second.Rows != 3 {
			t.Fatalf("after the lease: %+v, %t", second, ok)
		}
		if held, err := db.RenewExportLease(t.Context(), first, exportTime, time.Minute); held || err != nil {
			t.Errorf("the first node holds it still: %t, %v", held, err)
		}
		first.Status, second.Status = store.ExportFailed, store.ExportDone
		if held, err := db.FinishExport(t.Context(), first); held || err != nil {
			t.Errorf("the first node ends it: %t, %v", held, err)
		}
		if err := db.ReleaseExport(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		third, ok := claim("c", exportTime.Add(112*time.Second))
		if !ok || third.Rows != 0 {
			t.Fatalf("what was left: %+v, %t", third, ok)
		}
		third.Status, third.Rows, third.Bytes, third.File, third.LinkKey, third.Fields = store.ExportDone, 9, 90, "g", "secret", []string{"id"}
		third.EndedAt, third.UpdatedAt, third.ExpiresAt = exportTime.Add(time.Hour), exportTime.Add(time.Hour), exportTime.Add(2*time.Hour)
		if held, err := db.FinishExport(t.Context(), third); !held || err != nil {
			t.Fatalf("EndExport = %t, %v", held, err)
		}
		got, err := db.Export(t.Context(), "e")
		if diff := cmp.Diff(third.Export, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		if old, err := db.OldExports(t.Context(), exportTime.Add(2*time.Hour)); len(old) != 0 || err != nil {
			t.Errorf("old before its time: %v, %v", old, err)
		}
		old, err := db.OldExports(t.Context(), exportTime.Add(3*time.Hour))
		if len(old) != 1 || err != nil {
			t.Fatalf("OldExports = %v, %v", old, err)
		}
		if err := db.ExpireExport(t.Context(), "e", exportTime); err != nil {
			t.Fatal(err)
		}
		if got, err := db.Export(t.Context(), "e"); err != nil || got.Status != store.ExportExpired || got.File != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAnExportThatNoNodeSurvivesFails(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustExport(t, db, running("e"))
		now, claims := exportTime, 0
		for range 10 {
			_, ok, err := db.ClaimExport(t.Context(), "a", now, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				claims++
			}
			now = now.Add(time.Hour)
		}
		got, err := db.Export(t.Context(), "e")
		if claims != 5 || err != nil || got.Status != store.ExportFailed || got.Failure == "" {
			t.Errorf("%d claims, then %+v, %v", claims, got, err)
		}
	})
}
