package modelgate_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// link finds the target of a link in Markdown.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// entry is the first line of a file in changelog/unreleased.
var entry = regexp.MustCompile(`^(added|changed|fixed|removed|security): [A-Z].*\.\n`)

func TestArchitectureDocumentShowsTheFloors(t *testing.T) {
	const name = "docs/architecture.md"
	if !strings.Contains(string(mustRead(t, name)), "```text"+floors+"```") {
		t.Errorf("%s does not show the floors of floors_test.go; copy their lines into its block of text", name)
	}
}

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range link.FindAllSubmatch(data, -1) {
			target, _, _ := strings.Cut(string(found[1]), "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			if _, err := os.Stat(path.Join(path.Dir(name), target)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, target)
			}
		}
	}
}

func TestEveryDocumentIsListed(t *testing.T) {
	for list, folder := range map[string]string{"docs/README.md": "docs", "docs/adr/README.md": "docs/adr"} {
		text := string(mustRead(t, list))
		for _, name := range mustFiles(t) {
			base := path.Base(name)
			if path.Dir(name) == folder && base != "README.md" && !strings.Contains(text, "]("+base+")") {
				t.Errorf("%s: is not listed in %s", name, list)
			}
		}
	}
}

func TestChangelogEntriesHaveTheForm(t *testing.T) {
	const folder = "changelog/unreleased/"
	for name, data := range mustTexts(t) {
		if strings.HasPrefix(name, folder) && path.Base(name) != "README.md" && !entry.Match(data) {
			t.Errorf("%s: the first line does not have the form that %sREADME.md describes", name, folder)
		}
	}
}
