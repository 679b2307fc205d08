package chart

import (
	"os"
	"strings"
	"testing"
)

// Every file of values in the document can be installed as printed.
func TestValuesOfTheDocumentAreRendered(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n# values.yaml\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("the document has %d files of values", len(blocks))
	}
	for _, block := range blocks {
		values, _, _ := strings.Cut(block, "```")
		if _, err := render("modelgate", values); err != nil {
			t.Errorf("%v\n%s", err, values)
		}
	}
}
