package storetest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// failures is a test that keeps what it fails with and runs its clean-ups on
// demand.
type failures struct {
	testing.TB
	list []string
	ends []func()
}

func (f *failures) Errorf(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}
func (f *failures) Cleanup(end func()) { f.ends = append(f.ends, end) }

func (f *failures) end() string {
	for i := range f.ends {
		f.ends[len(f.ends)-1-i]()
	}
	return strings.Join(f.list, "\n")
}

func TestWritesThatAreNotRecordedAreFound(t *testing.T) {
	const rename = `UPDATE gateway_keys SET name = 'other' WHERE id = 'k1'`
	for _, tt := range []struct {
		name  string
		write func(db *journal.DB) error
		want  string // part of the failure; empty is none
	}{
		{"recorded", write(journal.Keys, rename), ""},
		{"the row recorded", write(journal.Keys.Row("k1"), rename), ""},
		{"another row", write(journal.Keys.Row("k2"), rename), "gateway_keys k1"},
		{"another table", write(journal.Configs, rename), "gateway_keys k1"},
		{"unpublished", write(journal.Unpublished, rename), "gateway_keys k1"},
		{"a query", func(db *journal.DB) error {
			return db.Change(t.Context(), func(tx *journal.Tx) error {
				var id string
				return tx.QueryRowContext(t.Context(), rename+` RETURNING id`).Scan(&id)
			})
		}, "gateway_keys k1"},
		{"outside of a change", func(db *journal.DB) error { _, err := db.Exec(t.Context(), rename); return err }, "gateway_keys k1"},
		{"recorded by the next change", func(db *journal.DB) error {
			if err := write(journal.Unpublished, rename)(db); err != nil {
				return err
			}
			return write(journal.Keys, rename)(db)
		}, "gateway_keys k1"},
		{"a row that goes with another", write(journal.Integrations, `DELETE FROM integrations`), "integration_workspaces"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "modelgate.db")
			db := mustFill(t, path)
			f := &failures{TB: t}
			storetest.CheckRecorded(f, "file:"+path)
			if err := tt.write(db); err != nil {
				t.Fatal(err)
			}
			if got := f.end(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("failed with %q, want %q", got, tt.want)
			}
		})
	}
}

// write returns a change that runs a statement and names rows.
func write(rows journal.Rows, text string) func(*journal.DB) error {
	return func(db *journal.DB) error {
		ctx := context.Background()
		return db.Change(ctx, func(tx *journal.Tx) error {
			_, err := tx.Exec(ctx, rows, text)
			return err
		})
	}
}

// mustFill makes a database with two keys and a workspace that has an integration.
func mustFill(t *testing.T, path string) *journal.DB {
	t.Helper()
	db, err := store.Open(t.Context(), "file:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		for _, id := range []string{"k1", "k2"} {
			if err := tx.CreateKey(t.Context(), store.Key{ID: id, Name: id, Hash: access.HashKey(id), CreatedAt: time.UnixMilli(1)}); err != nil {
				return err
			}
		}
		err := tx.CreateIntegration(t.Context(), store.Integration{ID: "i", Organisation: store.DefaultOrganisation, Slug: "i", Name: "i", Provider: "openai", Status: store.Active,
			CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)})
		if err != nil {
			return err
		}
		return tx.PutIntegrationWorkspace(t.Context(), store.IntegrationWorkspace{Integration: "i", Workspace: store.DefaultWorkspace, Status: store.Active})
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return journal.New(file.Write, "")
}
