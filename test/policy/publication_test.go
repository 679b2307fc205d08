package policy_test

import (
	"bytes"
	"strings"
	"testing"
)

// TestPublicationReadsRowsOfTheStore keeps SQL out of the package publication, which reads with
// the queries of the store. The exceptions are in
// docs/adr/0033-an-object-has-one-shape-per-layer.md.
func TestPublicationReadsRowsOfTheStore(t *testing.T) {
	const folder = "internal/store/publication/"
	own := map[string]bool{folder + "keys.go": true, folder + "users.go": true}
	found := 0
	for name, data := range mustTexts(t) {
		if !strings.HasPrefix(name, folder) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		found++
		if sql := bytes.Contains(data, []byte("SELECT ")); sql != own[name] {
			t.Errorf("%s has a statement of its own: %t, want %t", name, sql, own[name])
		}
	}
	if found < 8 {
		t.Errorf("found %d files in %s, want at least 8", found, folder)
	}
}
