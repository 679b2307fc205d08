package transfer_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/store/transfer"
	"modelgate/internal/testing/waittest"
)

// TestDamagedBackupsChangeNothing restores backups that are cut, changed or of other kinds
// over a place with data.
func TestDamagedBackupsChangeNothing(t *testing.T) {
	source := mustPlace(t, "sqlite")
	mustFill(t, source)
	content, _ := mustBackup(t, source)
	for _, kind := range kinds {
		target := mustPlace(t, kind)
		mustFill(t, target)
		mustLog(t, target, 100, 3)
		_, want := mustBackup(t, target)
		for _, tt := range []struct {
			name   string
			change func(b []byte) []byte
		}{
			{"empty", func([]byte) []byte { return nil }},
			{"text", func([]byte) []byte { return []byte("SELECT 1") }},
			{"the first half", func(b []byte) []byte { return b[:len(b)/2] }},
			{"without its last byte", func(b []byte) []byte { return b[:len(b)-1] }},
			{"without its beginning", func(b []byte) []byte { return b[100:] }},
			{"other bytes in the middle", func(b []byte) []byte { return overwrite(b, len(b)/2) }},
			{"other bytes at the beginning", func(b []byte) []byte { return overwrite(b, 40) }},
			{"other bytes at the end", func(b []byte) []byte { return overwrite(b, len(b)-300) }},
		} {
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				changed := tt.change(append([]byte(nil), content...))
				if _, err := restore(t, changed, target, transfer.RestoreOptions{Overwrite: true}); err == nil {
					t.Fatal("the backup was restored")
				}
				_, got := mustBackup(t, target)
				wantTotals(t, got.Tables, want.Tables)
			})
		}
	}
}

// TestRestoresNeedOverwrite restores over a place of which only one part has data.
func TestRestoresNeedOverwrite(t *testing.T) {
	source := mustPlace(t, "sqlite")
	mustFill(t, source)
	content, _ := mustBackup(t, source)
	for _, kind := range kinds {
		for _, tt := range []struct {
			name string
			fill func(t *testing.T, p transfer.Place)
			says string // empty if the backup is restored
		}{
			{"empty tables", func(t *testing.T, p transfer.Place) { mustMigrate(t, p) }, ""},
			{"a renamed workspace", func(t *testing.T, p transfer.Place) {
				mustMigrate(t, p)
				mustExec(t, mustOpen(t, p.Control), `UPDATE workspaces SET name = 'x'`)
			}, "has a control plane; to replace it, add --force"},
			{"a log", func(t *testing.T, p transfer.Place) { mustLog(t, p, 0, 1) }, "the log of the target has"},
		} {
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				target := mustPlace(t, kind)
				tt.fill(t, target)
				s, err := restore(t, content, target, transfer.RestoreOptions{DryRun: true})
				if found, _, _ := strings.Cut(tt.says, ";"); err != nil || (s.Used == "") != (found == "") || !strings.Contains(s.Used, strings.TrimPrefix(found, "has ")) {
					t.Errorf("a dry run of Restore() = %+v, %v, want %q", s, err, found)
				}
				_, err = restore(t, content, target, transfer.RestoreOptions{})
				if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("Restore() = %v, want %q", err, tt.says)
				}
			})
		}
	}
}

// TestDamagedFilesAreReplaced restores over files that are not databases.
func TestDamagedFilesAreReplaced(t *testing.T) {
	source, target := mustPlace(t, "sqlite"), mustPlace(t, "sqlite")
	mustFill(t, source)
	content, want := mustBackup(t, source)
	for _, path := range []string{strings.TrimPrefix(target.Control, "file:"), target.Log.Path} {
		if err := os.WriteFile(path, []byte(strings.Repeat("damaged ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := restore(t, content, target, transfer.RestoreOptions{}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Restore() = %v, want an error that names the damage", err)
	}
	if _, err := restore(t, content, target, transfer.RestoreOptions{Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	_, got := mustBackup(t, target)
	wantTotals(t, got.Tables, want.Tables)
}

func mustMigrate(t *testing.T, p transfer.Place) {
	t.Helper()
	db, err := store.Open(t.Context(), p.Control, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}

func mustExec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// TestMigrationsRefuse migrates between places that do not allow it.
func TestMigrationsRefuse(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(t *testing.T, from, to transfer.Place)
		says string
	}{
		{"other rows in the control plane", func(t *testing.T, _, to transfer.Place) {
			mustMigrate(t, to)
			mustExec(t, mustOpen(t, to.Control), `UPDATE workspaces SET name = 'x'`)
		}, "with other data"},
		{"other rows in the log", func(t *testing.T, _, to transfer.Place) { mustLog(t, to, 0, 3) }, "has other rows than the source"},
		{"a gateway on the target", func(t *testing.T, _, to transfer.Place) { mustListen(t, to) }, "stop all gateways"},
		{"a later schema", func(t *testing.T, from, _ transfer.Place) {
			mustExec(t, mustOpen(t, from.Control), `INSERT INTO schema_additions (version, name, checksum, applied_at) VALUES (9999, '9999_later', 'x', 0)`)
		}, "9999_later of a newer modelgate"},
		{"text with a NUL byte", func(t *testing.T, from, _ transfer.Place) {
			mustExec(t, mustOpen(t, from.Control), `UPDATE workspaces SET description = 'a' || char(0) || 'b'`)
		}, "correct it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, to := mustPlace(t, "sqlite"), mustPlace(t, "postgres")
			mustFill(t, from)
			tt.set(t, from, to)
			_, err := transfer.Migrate(t.Context(), from, to, transfer.MigrateOptions{Progress: noProgress})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Migrate() = %v, want an error that says %q", err, tt.says)
			}
			if mustCount(t, to, `SELECT COUNT(*) FROM pg_tables WHERE tablename = 'gateway_keys'`) > 0 && mustCount(t, to, `SELECT COUNT(*) FROM gateway_keys`) > 0 {
				t.Error("rows were written")
			}
		})
	}
}

// mustListen connects to a PostgreSQL database as a gateway does, until the test ends.
func mustListen(t *testing.T, p transfer.Place) {
	t.Helper()
	db, err := store.Open(t.Context(), p.Control, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		db.Listen(ctx, store.Listener{Changed: func() {}, Listening: func(err error) {
			if err == nil {
				select {
				case listening <- struct{}{}:
				default:
				}
			}
		}})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	waittest.Receive(t, listening, "that the gateway listens")
}

func mustCount(t *testing.T, p transfer.Place, text string) (n int) {
	t.Helper()
	if err := mustOpen(t, p.Control).QueryRowContext(t.Context(), text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// overwrite changes bytes, more than there are between two members.
func overwrite(b []byte, at int) []byte {
	for i := range 200 {
		b[at+i] ^= 0x55
	}
	return b
}

// TestInterruptedMigrationsGoOn removes from a target what an interrupted migration has not
// written yet, and migrates again.
func TestInterruptedMigrationsGoOn(t *testing.T) {
	const noControl = `DELETE FROM schema_migrations; DELETE FROM schema_additions`
	for _, tt := range []struct {
		name    string
		missing []string // statements on the log
		says    string   // empty if the migration goes on
	}{
		{"before the control plane", nil, ""},
		{"before the last table", []string{`DELETE FROM rollups`}, ""},
		{"within a table", []string{`DELETE FROM rollups`, `DELETE FROM bodies WHERE id >= (SELECT id FROM bodies ORDER BY id LIMIT 1 OFFSET 10)`}, ""},
		{"not the last rows", []string{`DELETE FROM bodies WHERE id = (SELECT id FROM bodies ORDER BY id LIMIT 1)`}, "has other rows than the source"},
		{"other values", []string{`UPDATE bodies SET data = id WHERE id = (SELECT id FROM bodies ORDER BY id LIMIT 1)`}, "has other rows than the source"},
	} {
		for _, to := range kinds {
			t.Run(to+"/"+tt.name, func(t *testing.T) {
				from := kinds[1-slices.Index(kinds, to)]
				source, target := mustPlace(t, from), mustPlace(t, to)
				mustFill(t, source)
				want, err := transfer.Migrate(t.Context(), source, target, transfer.MigrateOptions{Progress: noProgress})
				if err != nil {
					t.Fatal(err)
				}
				log := target.Control
				if to == "sqlite" {
					log = "file:" + target.Log.Path
					if err := os.Remove(strings.TrimPrefix(target.Control, "file:")); err != nil {
						t.Fatal(err)
					}
				} else {
					mustExec(t, mustOpen(t, target.Control), noControl)
				}
				db := mustOpen(t, log)
				for _, text := range tt.missing {
					if to == "postgres" {
						text = regexp.MustCompile(`(FROM|UPDATE) (rollups|bodies)`).ReplaceAllString(text, "$1 modelgate_logs.$2")
					}
					mustExec(t, db, text)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				got, err := transfer.Migrate(t.Context(), source, target, transfer.MigrateOptions{Progress: noProgress})
				if tt.says != "" {
					if err == nil || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("Migrate() = %v, want %q", err, tt.says)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wantTotals(t, got, want)
				_, s := mustBackup(t, target)
				wantTotals(t, s.Tables, want)
			})
		}
	}
}
