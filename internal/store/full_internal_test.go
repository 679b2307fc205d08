package store

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlite"
)

func TestAFullDiskRefusesChangesAndKeepsWhatThereIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "modelgate.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Pragmas: []string{"max_page_count(1)"}}) // as large as it is
	if err != nil {
		t.Fatal(err)
	}
	db = &DB{Queries: Queries{file.Read}, read: file.Read, write: journal.New(file.Write, ""), close: file.Close,
		engine: engine{name: path, conflict: sqlite.Conflict, away: isSQLiteUnavailable, explain: sqlite.Explain}}
	defer db.Close()
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := time.UnixMilli(1)
	big := Config{ID: "c1", Organisation: DefaultOrganisation, Workspace: DefaultWorkspace, Slug: "pc", Name: "n", VersionID: "v1",
		Status: Active, CreatedAt: written, UpdatedAt: written}
	err = db.Update(t.Context(), nil, func(tx *Tx) error {
		return tx.CreateConfig(t.Context(), big, ConfigVersion{ID: "v1", Config: "c1", Text: strings.Repeat("x", 1<<20), CreatedAt: written})
	})
	if e := apierr.From(err); e == nil || e.Kind != apierr.Unavailable || e.Code != "database_unavailable" {
		t.Errorf("a change on a full disk: %v, want it refused as one to a database that is away", err)
	}
	if n, err := db.Revision(t.Context()); n != 0 || err != nil {
		t.Errorf("Revision() = %d, %v; want what was there before", n, err)
	}
	if _, total, err := db.Configs(t.Context(), DefaultOrganisation, "", Page{}); total != 0 || err != nil {
		t.Errorf("%d configs, %v; want nothing half written", total, err)
	}
}
