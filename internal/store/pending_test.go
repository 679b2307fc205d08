package store_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// TestPendingOfADatabaseWithoutTheTableOfAdditions asks a newer program what it would apply to
// a database of the last program that had one table of migrations.
func TestPendingOfADatabaseWithoutTheTableOfAdditions(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db, err := store.Open(t.Context(), dsn, store.Options{Connections: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		inspect := func() *store.DB {
			t.Helper()
			db, err := store.Inspect(t.Context(), dsn, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			return db
		}
		storetest.Exec(t, dsn, `DROP TABLE schema_additions`)
		if got, added, err := store.PendingWithOneMore(t.Context(), inspect()); err != nil || !slices.Equal(got, []string{added}) {
			t.Errorf("pending = %v, %v; want %s alone", got, err, added)
		}
		storetest.Exec(t, dsn, `DROP TABLE schema_migrations`)
		steps, err := store.Migrations()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := inspect().Pending(t.Context()); err != nil || len(got) != len(steps) || !strings.HasPrefix(got[0], "0001_") {
			t.Errorf("without any table of migrations: %v, %v; want all %d", got, err, len(steps))
		}
	})
}
