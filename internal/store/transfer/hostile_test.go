package transfer_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"modelgate/internal/store/transfer"
)

// mustForge returns a backup with changed members, whose checksums are right, and one more
// member.
func mustForge(t *testing.T, content []byte, change func(member map[string]any), name string) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	z.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor())
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	add := func(name string, content []byte) {
		m, err := w.Create(name)
		if err == nil {
			_, err = m.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var list map[string]any
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == "backup.json" {
			if err := json.Unmarshal(b, &list); err != nil {
				t.Fatal(err)
			}
			continue
		}
		add(f.Name, b)
	}
	members := list["members"].([]any)
	for _, m := range members {
		change(m.(map[string]any))
	}
	if name != "" {
		sum := sha256.Sum256([]byte("evil"))
		list["members"] = append(members, map[string]any{"name": name, "bytes": 4, "sha256": hex.EncodeToString(sum[:])})
		add(name, []byte("evil"))
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	add("backup.json", b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestForgedBackupsReachNothingElse restores backups that somebody wrote on purpose, with names
// of files outside the data folder, and of tables and columns that are SQL.
func TestForgedBackupsReachNothingElse(t *testing.T) {
	source := mustPlace(t, "sqlite")
	mustFill(t, source)
	content, _ := mustBackup(t, source)
	none := func(map[string]any) {}
	table := func(m map[string]any) map[string]any { return m["table"].(map[string]any) }
	for _, tt := range []struct {
		name   string
		change func(m map[string]any)
		file   string
		ok     bool
	}{
		{"nothing forged", none, "", true},
		{"a stored file", none, "files/a/b", true},
		{"a file above", none, "files/../../evil", false},
		{"an absolute file", none, "/evil", false},
		{"a segment above", none, "ledger/../../evil", false},
		{"a table without rows", none, "control/evil", false},
		{"a table's name", func(m map[string]any) { table(m)["name"] = `users"; DROP TABLE users; --` }, "", false},
		{"another table's name", func(m map[string]any) {
			if m["name"] == "control/users" {
				table(m)["name"] = "schema_migrations"
			}
		}, "", false},
		{"a column's name", func(m map[string]any) {
			table(m)["columns"].([]any)[0].(map[string]any)["name"] = `id") FROM users; --`
		}, "", false},
		{"a column's type", func(m map[string]any) { table(m)["columns"].([]any)[0].(map[string]any)["type"] = "bytea" }, "", false},
		{"no columns", func(m map[string]any) { table(m)["columns"] = []any{} }, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := mustPlace(t, "sqlite")
			_, err := restore(t, mustForge(t, content, tt.change, tt.file), target, transfer.RestoreOptions{})
			if (err == nil) != tt.ok {
				t.Fatalf("Restore() = %v, want ok %t", err, tt.ok)
			}
			if _, err := os.Stat(strings.TrimPrefix(target.Control, "file:")); !tt.ok && err == nil {
				t.Error("a control plane was written")
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(target.Data), "evil")); err == nil {
				t.Error("a file outside the data folder was written")
			}
		})
	}
}
