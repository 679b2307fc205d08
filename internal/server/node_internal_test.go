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
		n, err := openNode(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !isNodeName(n.name) {
			t.Fatalf("%+v, %v", n, err)
		}
		n.close()
		return n.name, log.String()
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
			n, err := openNode(dir, slog.New(slog.DiscardHandler))
			if err != nil || n.name != old {
				t.Fatalf("%q: the name is %+v, %v", text, n, err)
			}
			n.close()
		}
	}
	if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte("ABCDE"), 0o600); err != nil { // cut
		t.Fatal(err)
	}
	n, err := openNode(dir, slog.New(slog.DiscardHandler))
	if err != nil || !isNodeName(n.name) {
		t.Fatalf("a cut file gives the name %+v, %v", n, err)
	}
	n.close()
}

func TestGatewaysOnOneFolderHaveNamesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	open := func() *node {
		t.Helper()
		n, err := openNode(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !isNodeName(n.name) {
			t.Fatalf("%+v, %v", n, err)
		}
		t.Cleanup(n.close)
		return n
	}
	first := open()
	if log.Len() > 0 {
		t.Errorf("the first says %s", log.String())
	}
	second, third := open(), open()
	if first.name == second.name || second.name == third.name || first.name == third.name || !strings.Contains(log.String(), "another gateway uses the data folder") {
		t.Errorf("the names are %s, %s and %s; log %s", first.name, second.name, third.name, log.String())
	}
	first.close()
	if next := open(); next.name != first.name {
		t.Errorf("after the first has ended, the name is %s instead of %s", next.name, first.name)
	}
}
