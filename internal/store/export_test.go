package store_test

import (
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

func TestAFinishedExportHasItsFileUntilItExpires(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		e := running("e")
		mustExport(t, db, e)
		report := func(e store.Export, node string) error {
			return db.Update(t.Context(), nil, func(tx *store.Tx) error {
				return tx.ReportExport(t.Context(), e, node, exportTime.Add(time.Minute))
			})
		}
		e.Rows, e.Bytes, e.File = 3, 30, "f"
		if err := report(e, "a"); err != nil {
			t.Fatal(err)
		}
		if got, err := db.Export(t.Context(), "e"); err != nil || got.Rows != 3 || got.File != "f" {
			t.Fatalf("after a report: %+v, %v", got, err)
		}
		e.Status, e.Rows, e.Bytes, e.File, e.LinkKey, e.Fields = store.ExportDone, 9, 90, "g", "secret", []string{"id"}
		e.EndedAt, e.UpdatedAt, e.ExpiresAt = exportTime.Add(time.Hour), exportTime.Add(time.Hour), exportTime.Add(2*time.Hour)
		finish := func() error {
			return db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.FinishExport(t.Context(), e) })
		}
		if err := finish(); err != nil {
			t.Fatal(err)
		}
		if err := finish(); !apierr.IsNotFound(err) {
			t.Errorf("finished twice: %v", err)
		}
		if err := report(e, "b"); !apierr.IsNotFound(err) {
			t.Errorf("a report after the end: %v", err)
		}
		got, err := db.Export(t.Context(), "e")
		if diff := cmp.Diff(e, got); diff != "" || err != nil {
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

func TestExportsOfEarlierVersionsGetJobs(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustExport(t, db, running("started"))
		mustExport(t, db, draft("draft"))
		mustExport(t, db, running("leased"))
		until := exportTime.Add(20 * time.Second)
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return tx.ReportExport(t.Context(), running("leased"), "old node", until)
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := db.AdoptExports(t.Context(), exportTime); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err := db.Jobs(t.Context(), store.JobQuery{Organisation: store.DefaultOrganisation}, store.Page{Size: 10})
		due := map[string]time.Time{}
		for _, j := range list {
			due[j.Subject] = j.NextAt
			if j.Kind != store.JobExport || j.State != store.JobQueued || j.Workspace != store.DefaultWorkspace {
				t.Errorf("%+v", j)
			}
		}
		if diff := cmp.Diff(map[string]time.Time{"started": exportTime, "leased": until}, due); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}
