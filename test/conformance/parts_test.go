package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pagePart is a page of statements: those of the list from first up to the first one
// of the next part.
type pagePart struct{ file, title, first string }

// parts divides the list of statements into pages.
var parts = []pagePart{
	{"introduction", "Introduction of the specification", "S-001"},
	{"config", "The config object", "S-044"},
	{"objects", "Responses, stored objects and their states", "S-132"},
	{"generation", "Chat, text, embeddings and images", "S-253"},
	{"control", "Prompts, pass-through, provider objects and the control plane", "S-335"},
	{"authentication", "Authentication, events, errors and limits", "S-417"},
	{"releases", "Versions and release notes", "S-518"},
	{"security", "Security", "M-001"},
	{"records", "Ledger, logs and errors", "M-055"},
	{"tenants", "Tenants, estimates and shares", "M-100"},
	{"models", "Models, agents and limits", "M-122"},
	{"guardrails", "Guardrails, caches and routing", "M-160"},
	{"edges", "Credentials, contents and edge cases", "M-212"},
}

// maxPage is the number of bytes that a page may have.
const maxPage = 48 << 10

// pageRow is the row of one statement.
type pageRow struct{ number, state, text string }

const generatedMark = "<!-- Generated from test/conformance by go test ./test/conformance -update. Do not edit. -->"

const indexIntro = `# Conformance

` + generatedMark + `

Find the tests behind each promise of the gateway. S-numbers are the statements of the
specification, all of them and in its order; M-numbers are promises of other pages. The tests start
the built program and check it from outside: over HTTP, on the command line, by its exit
codes. Tests of other packages than test/conformance have their folder in front.

| state | meaning |
|---|---|
| **covered** | the program was broken on purpose, by each fault in the last column, and a test of the statement failed each time. Faults of unrelated statements may have been in one build. The failed cases and their messages are in test/conformance/proofs.yaml |
| **open** | tests exist, but the statement has not been proved by breaking it. The reason follows |
| **in part** | the statement does not hold completely. What follows says what holds, which the tests show, and what does not |
| **not held** | the statement does not hold. What follows says what the gateway does today |

To break the program yourself, run ` + "`make break`" + `; it prints its usage.

%d statements: %s.

| part | first | last | statements | covered | open | in part | not held |
|---|---|---|---|---|---|---|---|
`

const partIntro = `# Conformance: %s

` + generatedMark + `

%d statements: %s. [How to read this](../conformance.md).

| number | statement | state | tests | faults noticed |
|---|---|---|---|---|
`

// renderPages returns the index page and a page for each part, by their paths
// in the folder docs.
func renderPages(rows []pageRow) (map[string]string, error) {
	pages := map[string]string{}
	var index strings.Builder
	fmt.Fprintf(&index, indexIntro, len(rows), countStates(rows))
	for i, p := range parts {
		own, rest := rows, []pageRow(nil)
		if i+1 < len(parts) {
			next := slices.IndexFunc(rows, func(r pageRow) bool { return r.number == parts[i+1].first })
			if next < 0 {
				return nil, fmt.Errorf("%s, the first statement of %s.md, is not listed after %s", parts[i+1].first, parts[i+1].file, p.first)
			}
			own, rest = rows[:next], rows[next:]
		}
		if len(own) == 0 || own[0].number != p.first {
			return nil, fmt.Errorf("%s.md does not begin with %s", p.file, p.first)
		}
		name := filepath.Join("conformance", p.file+".md")
		pages[name] = renderPart(p, own)
		if n := len(pages[name]); n > maxPage {
			return nil, fmt.Errorf("docs/%s has %d bytes, more than %d; divide it in parts_test.go", name, n, maxPage)
		}
		c := statesOf(own)
		fmt.Fprintf(&index, "| [%s](conformance/%s.md) | %s | %s | %d | %d | %d | %d | %d |\n",
			p.title, p.file, p.first, own[len(own)-1].number, len(own), c["covered"], c["open"], c["in part"], c["**not held**"])
		rows = rest
	}
	pages["conformance.md"] = index.String()
	return pages, nil
}

func renderPart(p pagePart, rows []pageRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, partIntro, p.title, len(rows), countStates(rows))
	for _, r := range rows {
		b.WriteString(r.text)
	}
	return b.String()
}

// statesOf returns the number of statements by state.
func statesOf(rows []pageRow) map[string]int {
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.state]++
	}
	return counts
}

func countStates(rows []pageRow) string {
	c := statesOf(rows)
	return fmt.Sprintf("%d covered, %d open, %d in part, %d not held", c["covered"], c["open"], c["in part"], c["**not held**"])
}

// writePages writes the pages into the folder, and removes those of former parts.
func writePages(folder string, pages map[string]string) error {
	if err := os.RemoveAll(filepath.Join(folder, "conformance")); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(folder, "conformance"), 0o755); err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// comparePages returns an error if the folder has other pages than these.
func comparePages(folder string, pages map[string]string) error {
	files, err := filepath.Glob(filepath.Join(folder, "conformance", "*"))
	if err != nil {
		return err
	}
	stale := len(files) != len(parts)
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(folder, name))
		stale = stale || err != nil || string(got) != want
	}
	if stale {
		return fmt.Errorf("docs/conformance.md or one of its parts is stale; run go test ./test/conformance -update")
	}
	return nil
}

func TestPagesDivideTheListOfStatements(t *testing.T) {
	pages, err := renderPages(rowsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		row, found := "\n| "+s.number+" |", 0
		for _, text := range pages {
			found += strings.Count(text, row)
		}
		if found != 1 {
			t.Errorf("%s is on %d pages, want 1", s.number, found)
		}
	}
	folder := t.TempDir()
	if err := writePages(folder, pages); err != nil {
		t.Fatal(err)
	}
	if err := comparePages(folder, pages); err != nil {
		t.Error(err)
	}
	former := filepath.Join(folder, "conformance", "former.md")
	if err := os.WriteFile(former, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if comparePages(folder, pages) == nil {
		t.Error("a page of a former part is not noticed")
	}
	if err := writePages(folder, pages); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(former); err == nil {
		t.Error("a page of a former part is not removed")
	}
}
