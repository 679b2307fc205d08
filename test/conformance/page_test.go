package conformance

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// docs is the folder of the generated pages: conformance.md and its parts.
var docs = filepath.Join("..", "..", "docs")

// checkPages compares the cases that ran with the list of statements and the
// pages with both. With -update it writes the pages first.
func checkPages() []string {
	proofs, err := readProofs(proofFile)
	if err != nil {
		return []string{err.Error()}
	}
	problems := slices.Concat(checkCases(), checkProofs(statements, proofs), checkProofCases(proofs))
	if len(problems) > 0 {
		return problems
	}
	pages, err := renderPages(rowsOf(proofs))
	if err == nil && *update {
		err = writePages(docs, pages)
	}
	if err == nil {
		err = comparePages(docs, pages)
	}
	if err != nil {
		problems = append(problems, err.Error())
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

// rowsOf returns the rows of all statements, in the order of the list.
func rowsOf(proofs []proof) []pageRow {
	rows := make([]pageRow, 0, len(statements))
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
		rows = append(rows, pageRow{s.number, state, fmt.Sprintf("| %s | %s | %s | %s | %s |\n",
			s.number, cell(s.text), cell(state+note), cell(testsOf(s)), cell(strings.Join(faults, "; ")))})
	}
	return rows
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
