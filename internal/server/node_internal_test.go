package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestACopiedFolderIsAnotherNode(t *testing.T) {
	original, copied := t.TempDir(), t.TempDir()
	name := func(dir string) (string, string) {
		t.Helper()
		var log bytes.Buffer
		n, err := openNode(dir, "boot-1", slog.New(slog.NewTextHandler(&log, nil)))
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
			n, err := openNode(dir, "boot-1", slog.New(slog.DiscardHandler))
			if err != nil || n.name != old {
				t.Fatalf("%q: the name is %+v, %v", text, n, err)
			}
			n.close()
		}
	}
	if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte("ABCDE"), 0o600); err != nil { // cut
		t.Fatal(err)
	}
	n, err := openNode(dir, "boot-1", slog.New(slog.DiscardHandler))
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
		n, err := openNode(dir, "boot-1", slog.New(slog.NewTextHandler(&log, nil)))
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

// The snapshot of a disk has the same files with the same inodes. Another machine runs on it.
func TestASnapshotOfTheDiskIsAnotherNode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, nodeFile)
	open := func(boot string) (name, log string) {
		t.Helper()
		var text bytes.Buffer
		n, err := openNode(dir, boot, slog.New(slog.NewTextHandler(&text, nil)))
		if err != nil || !isNodeName(n.name) {
			t.Fatalf("%+v, %v", n, err)
		}
		n.close()
		return n.name, text.String()
	}
	first, _ := open("boot-1")
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, log := open("boot-1"); again != first || log != "" {
		t.Errorf("a restart has the name %s instead of %s: %s", again, first, log)
	}
	second, log := open("boot-2")
	if second == first || !strings.Contains(log, "level=INFO") || !strings.Contains(log, "snapshot of a disk") {
		t.Errorf("on another machine the name is %s, as before %s: %s", second, first, log)
	}
	if again, log := open("boot-2"); again != second || log != "" {
		t.Errorf("a restart there has the name %s instead of %s: %s", again, second, log)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil { // keeps the inode
			t.Fatal(err)
		}
	}
	write(string(original))
	if again, log := open("boot-1"); again != first || log != "" {
		t.Errorf("the original has the name %s instead of %s: %s", again, first, log)
	}
	inode, rest, _ := strings.Cut(strings.TrimSpace(string(original)), "-")
	device, boot, _ := strings.Cut(rest, "-")
	if boot != "boot-1" || device == "" {
		t.Fatalf("the file has %q", original)
	}
	write(inode + "-1" + device + "-boot-1\n")
	if third, log := open("boot-1"); third == first || !strings.Contains(log, "level=WARN") {
		t.Errorf("on another device the name is %s, as before %s: %s", third, first, log)
	}
	write(inode + "\n") // of an earlier version
	if again, log := open("boot-1"); again != first || log != "" {
		t.Errorf("after an update the name is %s instead of %s: %s", again, first, log)
	}
}

func TestRunsOfAMachineAreReported(t *testing.T) {
	if id := bootID(); runtime.GOOS == "linux" && (len(id) < 30 || id != bootID() || strings.ContainsAny(id, " \n")) {
		t.Errorf("the run of this machine is %q", id)
	}
}
