package policy_test

import (
	"bytes"
	"path"
	"strings"
	"testing"
)

// applyFile opens the transaction in which a file of `modelgate apply` is applied.
const applyFile = "internal/controlplane/manifest/apply.go"

// TestFilesAreAppliedByHandlers holds ADR 28: package manifest compares, and functions of the
// families' packages store.
func TestFilesAreAppliedByHandlers(t *testing.T) {
	seen := false
	for _, name := range mustFiles(t) {
		if path.Dir(name) != path.Dir(applyFile) || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		writes := bytes.Contains(mustRead(t, name), []byte("store.Tx"))
		if seen = seen || name == applyFile && writes; writes && name != applyFile {
			t.Errorf("%s writes to the store itself; call a function of the handler's package", name)
		}
	}
	if !seen {
		t.Errorf("%s no longer opens the transaction: name the file that does", applyFile)
	}
}
