package stateplane_test

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/stateplane"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// folder keeps contents as they are.
type folder struct{ blob.Folder }

func (f folder) Put(ctx context.Context, _, name string, r io.Reader) (int64, error) {
	return f.Folder.Put(ctx, name, r)
}

func (f folder) Get(ctx context.Context, _, name string, offset, length int64) (io.ReadCloser, error) {
	return f.Folder.GetRange(ctx, name, offset, length)
}

func (f folder) List(ctx context.Context) iter.Seq2[blob.Info, error] { return f.Folder.List(ctx, "") }

// TestContentWithoutARecordIsDeletedAfterADay has files with and without records, and some that
// others wrote.
func TestContentWithoutARecordIsDeletedAfterADay(t *testing.T) {
	db := storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")
	files := folder{blob.Folder(t.TempDir())}
	batch := store.Object{ID: "gw_batch_1", Kind: store.ObjectBatch, Data: []byte(`{"batch":{"output_file_id":"gw_file_3"}}`), EndedAt: time.Now()}
	output := store.Object{ID: "gw_file_3", Kind: store.ObjectFile, Data: []byte(`{"blobs":[{"name":"org/gw_batch_1/used","size":1}]}`)}
	for _, o := range []store.Object{{ID: "gw_file_1", Kind: store.ObjectFile}, {ID: "gw_batch_2", Kind: store.ObjectBatch}, batch, output} {
		o.Workspace, o.CreatedAt, o.UpdatedAt = "w", time.Now(), time.Now()
		if err := db.Transact(t.Context(), func(tx *store.Tx) error { return tx.AddObject(t.Context(), o) }); err != nil {
			t.Fatal(err)
		}
	}
	stay := []string{"foreign", "org/gw_batch_1/used", "org/gw_batch_2/running", "org/gw_file_1", "org/somebody/else"}
	lost := []string{"org/gw_batch_1/lost", "org/gw_file_2", "org/gw_file_4/gw_part_1"}
	for _, name := range slices.Concat(stay, lost) {
		if _, err := files.Put(t.Context(), "", name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (list []string) {
		for info, err := range files.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, info.Name)
		}
		slices.Sort(list)
		return list
	}
	sweep(t, db, files, 23*time.Hour)
	if got := names(); len(got) != len(stay)+len(lost) {
		t.Errorf("within a day: %v", got)
	}
	sweep(t, db, files, 25*time.Hour)
	if got := names(); !slices.Equal(got, stay) {
		t.Errorf("after a day: %v, want %v", got, stay)
	}
}

// sweep deletes what is orphaned after a time.
func sweep(t *testing.T, db *store.DB, files kept.Contents, age time.Duration) {
	t.Helper()
	p := stateplane.New(kept.Deps{
		DB: db, Contents: files, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(age) },
	}, stateplane.Options{})
	if err := p.SweepOrphans(t.Context()); err != nil {
		t.Fatal(err)
	}
}
