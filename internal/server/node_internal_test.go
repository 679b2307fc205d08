package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACopiedFolderIsAnotherNode(t *testing.T) {
	original, copied := t.TempDir(), t.TempDir()
	name := func(dir string) (string, string) {
		t.Helper()
		var log bytes.Buffer
		name, err := nodeName(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !isNodeName(name) {
			t.Fatalf("%q, %v", name, err)
		}
		return name, log.String()
	}
	first, _ := name(original)
	if again, log := name(original); again != first || log != "" {
		t.Errorf("a restart has the name %s instead of %s: %s", again, first, log)
	}
	raw, err := os.ReadFile(filepath.Join(original, nodeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, nodeFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	other, log := name(copied)
	if other == first || !strings.Contains(log, "copied or restored") {
		t.Errorf("the copy has the name %s, its original %s: %s", other, first, log)
	}
	if again, log := name(copied); again != other || log != "" {
		t.Errorf("a restart of the copy has the name %s instead of %s: %s", again, other, log)
	}
	if again, _ := name(original); again != first {
		t.Errorf("the original has the name %s instead of %s", again, first)
	}
}

func TestTheNameOfAnEarlierVersionIsKept(t *testing.T) {
	dir := t.TempDir()
	const old = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, text := range []string{old + "\n", old} {
		if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if name, err := nodeName(dir, slog.New(slog.DiscardHandler)); name != old || err != nil {
				t.Errorf("%q: the name is %q, %v", text, name, err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte("ABCDE"), 0o600); err != nil { // cut
		t.Fatal(err)
	}
	if name, err := nodeName(dir, slog.New(slog.DiscardHandler)); !isNodeName(name) || err != nil {
		t.Errorf("a cut file gives the name %q, %v", name, err)
	}
}
