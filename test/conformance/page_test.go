package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var page = filepath.Join("..", "..", "docs", "conformance.md")

// checkPage compares the cases that ran with the list of statements and the
// page with both. With -update it writes the page first.
func checkPage() []string {
	proofs, err := readProofs(proofFile)
	if err != nil {
		return []string{err.Error()}
	}
	problems := slices.Concat(checkCases(), checkProofs(statements, proofs), checkProofCases(proofs))
	if len(problems) > 0 {
		return problems
	}
	want := renderPage(proofs)
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			return []string{err.Error()}
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		return []string{err.Error()}
	}
	if !bytes.Equal(got, want) {
		problems = append(problems, "docs/conformance.md is stale; run go test ./test/conformance -update")
	}
	return problems
}

// checkCases returns the statements that hold, if only in part, and have no case.
func checkCases() []string {
	var problems []string
	for _, s := range statements {
		if s.lacks == "" && len(s.tests) == 0 && len(book.cases[s.number]) == 0 {
			problems = append(problems, s.number+" is listed as covered or in part, but no case proves it")
		}
	}
	return problems
}

const pageIntro = `# Conformance

<!-- Generated from test/conformance by go test ./test/conformance -update. Do not edit. -->

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

%d statements: %d covered, %d open, %d in part, %d not held.

| number | statement | state | tests | faults noticed |
|---|---|---|---|---|
`

func renderPage(proofs []proof) []byte {
	var rows bytes.Buffer
	counts := map[string]int{}
	for _, s := range statements {
		state, note := "covered", ""
		var faults []string
		for _, p := range proofs {
			switch {
			case p.Statement != s.number:
			case p.Open != "":
				state, note = "open", ": "+p.Open
			default:
				faults = append(faults, p.Fault)
			}
		}
		switch {
		case s.partly != "":
			state, note = "in part", ": "+s.partly
		case s.lacks != "":
			state, note = "**not held**", ": "+s.lacks
		}
		counts[state]++
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n", s.number, cell(s.text), cell(state+note), cell(testsOf(s)), cell(strings.Join(faults, "; ")))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, pageIntro, len(statements), counts["covered"], counts["open"], counts["in part"], counts["**not held**"])
	b.Write(rows.Bytes())
	return b.Bytes()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// testsOf lists the tests that hold cases of a statement, with their number
// where there are several.
func testsOf(s statement) string {
	counts := map[string]int{}
	for name := range book.cases[s.number] {
		top, _, _ := strings.Cut(name, "/")
		counts[top]++
	}
	var names []string
	for _, test := range s.tests {
		names = append(names, "`"+test+"`")
	}
	for top, n := range counts {
		text := "`" + top + "`"
		if n > 1 {
			text += fmt.Sprintf(" (%d)", n)
		}
		names = append(names, text)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// lastStatement is the number of statements that the specification has.
const lastStatement = 600

// TestEveryStatementOfTheSpecificationIsListedInOrder guarantees that the page hides none.
func TestEveryStatementOfTheSpecificationIsListedInOrder(t *testing.T) {
	var want []string
	for n := 1; n <= lastStatement; n++ {
		want = append(want, fmt.Sprintf("S-%03d", n))
	}
	var got []string
	texts := map[string]string{}
	for _, s := range statements {
		if strings.HasPrefix(s.number, "S-") {
			got = append(got, s.number)
		}
		if other, twice := texts[s.text]; twice {
			t.Errorf("%s and %s say the same words", other, s.number)
		}
		texts[s.text] = s.number
		if s.partly != "" && s.lacks != "" {
			t.Errorf("%s holds in part and lacks something; it can be one only", s.number)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed statements = %v, want %v", got, want)
	}
}
