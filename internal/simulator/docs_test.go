package simulator_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

func TestTheDocumentListsTheFaults(t *testing.T) {
	const name = "../../docs/simulator.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| fault | what happens |\n|---|---|\n")
	for _, f := range simulator.Faults() {
		fmt.Fprintf(&want, "| `%s` | %s |\n", f.Form, f.Text)
	}
	if !strings.HasSuffix(string(page), want.String()) {
		t.Errorf("%s does not end in the table of simulator.Faults; it is:\n%s", name, want.String())
	}
}
