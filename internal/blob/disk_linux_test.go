package blob_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"modelgate/internal/blob"
)

func TestAFullDiskIsToldAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk can't be mounted here: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	f := blob.Folder(filepath.Join(dir, "blob"))
	_, err := f.Put(t.Context(), "exports/x", bytes.NewReader(make([]byte, 2<<20)))
	fault, ok := errors.AsType[*blob.Fault](err)
	if !ok || fault.Reason != "no room is left on the disk" || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "blob", "exports")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := f.Put(t.Context(), "exports/x", strings.NewReader("fits")); err != nil {
		t.Errorf("a file that fits: %v", err)
	}
}
