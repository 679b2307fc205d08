package stateplane_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// TestObjectsOfDeletedWorkspacesAreDeletedLater has one workspace that was deleted and one that was
// not, with a file, a running batch and a chunk of its results each.
func TestObjectsOfDeletedWorkspacesAreDeletedLater(t *testing.T) {
	db := storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")
	files := folder{blob.Folder(t.TempDir())}
	now := time.Now()
	add := func(workspace, status string) {
		objects := []store.Object{
			{ID: "gw_file_" + workspace, Kind: store.ObjectFile, Data: []byte(`{"blobs":[{"name":"org/gw_file_` + workspace + `","size":1}]}`)},
			{ID: "gw_batch_" + workspace, Kind: store.ObjectBatch, Data: []byte(`{}`)},
			{ID: "gw_chunk_" + workspace, Kind: store.ObjectChunk, Parent: "gw_batch_" + workspace, Data: []byte(`{"output":{"name":"org/gw_batch_` + workspace + `/1","size":1}}`)},
		}
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return tx.CreateWorkspace(t.Context(), store.Workspace{ID: workspace, Organisation: store.DefaultOrganisation, Name: workspace, Slug: workspace, Status: status,
				CreatedAt: now, UpdatedAt: now})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			o.Organisation, o.Workspace, o.CreatedAt, o.UpdatedAt = "org", workspace, now, now
			err := db.Transact(t.Context(), func(tx *store.Tx) error {
				if err := tx.AddObject(t.Context(), o); err != nil || o.Kind != store.ObjectBatch {
					return err
				}
				return tx.AddJob(t.Context(), store.Job{ID: "job-" + workspace, Kind: store.JobBatch, Subject: o.ID, Organisation: "org", Workspace: workspace,
					NextAt: now, CreatedAt: now})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"org/gw_file_" + workspace, "org/gw_batch_" + workspace + "/1"} {
			if _, err := files.Put(t.Context(), "", name, strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("gone", store.Archived)
	add("there", store.Active)
	left := func(workspace string) (n int) {
		for _, id := range []string{"gw_file_", "gw_batch_", "gw_chunk_"} {
			if _, err := db.ObjectByID(t.Context(), id+workspace); err == nil {
				n++
			} else if !apierr.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if _, err := db.Job(t.Context(), "job-"+workspace); err == nil {
			n++
		}
		for info, err := range files.List(t.Context()) {
			if err == nil && strings.Contains(info.Name, workspace) {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		age  time.Duration
		gone int
	}{{9 * 24 * time.Hour, 6}, {11 * 24 * time.Hour, 0}} {
		p := stateplane.New(kept.Deps{
			DB: db, Contents: files, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now.Add(tt.age) },
		}, stateplane.Options{KeepDeleted: 10 * 24 * time.Hour})
		if err := p.SweepWorkspaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		if gone, there := left("gone"), left("there"); gone != tt.gone || there != 6 {
			t.Errorf("after %v: %d things of the deleted workspace are left, want %d; %d of the other, want 6", tt.age, gone, tt.gone, there)
		}
	}
}
