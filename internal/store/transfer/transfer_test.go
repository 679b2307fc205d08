package transfer_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"modelgate/internal/store/transfer"
)

// mustBackup returns a backup of a place.
func mustBackup(t *testing.T, p transfer.Place) ([]byte, transfer.Summary) {
	t.Helper()
	var b bytes.Buffer
	s, err := transfer.Write(t.Context(), p, "1.2.3", &b, noProgress)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), s
}

func restore(t *testing.T, content []byte, to transfer.Place, o transfer.RestoreOptions) (transfer.Summary, error) {
	t.Helper()
	o.Progress = noProgress
	return transfer.Restore(t.Context(), bytes.NewReader(content), int64(len(content)), to, o)
}

// totals returns rows, hash and sums by table.
func totals(list []transfer.Total) map[string]string {
	all := make(map[string]string)
	for _, s := range list {
		all[s.Table] = fmt.Sprint(s.Rows, s.Hash, s.Columns)
	}
	return all
}

// wantTotals compares tables of two places.
func wantTotals(t *testing.T, got, want []transfer.Total) {
	t.Helper()
	g, w := totals(got), totals(want)
	for _, table := range slices.Sorted(maps.Keys(w)) {
		if g[table] != w[table] {
			t.Errorf("%s: %s, want %s", table, g[table], w[table])
		}
	}
	if len(g) != len(w) || len(w) == 0 {
		t.Errorf("%d tables, want %d", len(g), len(w))
	}
}

// TestBackupsHaveEveryTable compares the tables of a backup with those that the databases
// list, so that a new table cannot be forgotten.
func TestBackupsHaveEveryTable(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := mustPlace(t, kind)
			mustFill(t, p)
			_, s := mustBackup(t, p)
			got := totals(s.Tables)
			for _, table := range mustTables(t) {
				want := int64(3)
				i := slices.IndexFunc(s.Tables, func(o transfer.Total) bool { return o.Table == "control/"+table.name })
				if i < 0 {
					t.Errorf("the backup has no table %s", table.name)
				} else if s.Tables[i].Rows < want && table.name != "revision" {
					t.Errorf("the backup has %d rows of %s, want %d", s.Tables[i].Rows, table.name, want)
				}
				delete(got, "control/"+table.name)
			}
			for _, table := range []string{"blocks", "bodies", "rollups", "feedback", "guard_results"} {
				if got["log/"+table] == "" {
					t.Errorf("the backup has no table %s of the log", table)
				}
				delete(got, "log/"+table)
			}
			if len(got) > 0 {
				t.Errorf("the backup also has %v", got)
			}
		})
	}
}

// TestRestoredPlacesEqualTheOriginal restores backups of both kinds to both kinds.
func TestRestoredPlacesEqualTheOriginal(t *testing.T) {
	for _, from := range kinds {
		source := mustPlace(t, from)
		mustFill(t, source)
		content, want := mustBackup(t, source)
		for _, to := range kinds {
			t.Run(from+" to "+to, func(t *testing.T) {
				target := mustPlace(t, to)
				if _, err := restore(t, content, target, transfer.RestoreOptions{DryRun: true}); err != nil {
					t.Fatal(err)
				}
				if _, err := restore(t, content, target, transfer.RestoreOptions{}); err != nil {
					t.Fatal(err)
				}
				_, got := mustBackup(t, target)
				wantTotals(t, got.Tables, want.Tables)
				mustLog(t, target, 40, 5) // the log goes on
				_, err := restore(t, content, target, transfer.RestoreOptions{})
				if err == nil {
					t.Error("a backup was restored over other data")
				}
				if _, err := restore(t, content, target, transfer.RestoreOptions{Overwrite: true}); err != nil {
					t.Fatal(err)
				}
				_, got = mustBackup(t, target)
				wantTotals(t, got.Tables, want.Tables)
			})
		}
	}
}

func TestMigrationsEqualTheOriginal(t *testing.T) {
	for _, from := range kinds {
		for _, to := range kinds {
			if from == to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				source, target := mustPlace(t, from), mustPlace(t, to)
				mustFill(t, source)
				_, want := mustBackup(t, source)
				migrate := func(dry bool) []transfer.Total {
					t.Helper()
					got, err := transfer.Migrate(t.Context(), source, target, transfer.MigrateOptions{DryRun: dry, Progress: noProgress})
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				wantTotals(t, migrate(true), want.Tables)
				wantTotals(t, migrate(false), want.Tables)
				_, got := mustBackup(t, target)
				wantTotals(t, got.Tables, want.Tables)
				wantTotals(t, migrate(false), want.Tables) // again
			})
		}
	}
}
