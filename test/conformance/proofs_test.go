package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// proofFile is written by make break with -record.
const proofFile = "proofs.yaml"

// proof records that a case of a statement failed with a fault in the program,
// or why the statement has no such record yet.
type proof struct {
	Statement string `yaml:"statement"`
	Open      string `yaml:"open"` // the reason; the other fields are empty then
	Fault     string `yaml:"fault"`
	Case      string `yaml:"case"` // TestX/sub, or test/security.TestX/sub of another package
	Message   string `yaml:"message"`
}

func readProofs(path string) ([]proof, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []proof
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// checkProofs returns one line for each statement that is covered without a
// proof, each proof without a statement, and each proof of a test that does not
// exist.
func checkProofs(statements []statement, proofs []proof) []string {
	var problems []string
	known, recorded := map[string]bool{}, map[string]bool{}
	for _, s := range statements {
		known[s.number] = true
		for _, test := range s.tests {
			if err := checkTest(test); err != nil {
				problems = append(problems, s.number+": "+err.Error())
			}
		}
	}
	for _, p := range proofs {
		recorded[p.Statement] = true
		switch complete := p.Fault != "" && p.Case != "" && p.Message != ""; {
		case !known[p.Statement]:
			problems = append(problems, fmt.Sprintf("%s: %q is not a statement", proofFile, p.Statement))
		case p.Open != "" && (p.Fault != "" || p.Case != "" || p.Message != ""):
			problems = append(problems, fmt.Sprintf("%s: %s must be open or have a fault, not both", proofFile, p.Statement))
		case p.Open == "" && !complete:
			problems = append(problems, fmt.Sprintf("%s: %s must have a fault, a case and a message", proofFile, p.Statement))
		case isDated(p.Case):
			problems = append(problems, fmt.Sprintf("%s: %s: the case %s must have the same name on every day", proofFile, p.Statement, p.Case))
		case p.Open == "":
			if err := checkTest(p.Case); err != nil {
				problems = append(problems, fmt.Sprintf("%s: %s: %v", proofFile, p.Statement, err))
			}
		}
	}
	for _, s := range statements {
		if s.partly == "" && s.lacks == "" && !recorded[s.number] {
			problems = append(problems, fmt.Sprintf("%s has no proof: break it with make break, or record in %s why it is open", s.number, proofFile))
		}
	}
	return problems
}

// checkProofCases returns the proofs whose case did not run for their statement.
func checkProofCases(proofs []proof) []string {
	var problems []string
	for _, p := range proofs {
		if folder, _ := splitTest(p.Case); p.Open != "" || folder != "" {
			continue
		}
		top, _, _ := strings.Cut(p.Case, "/")
		found := slices.ContainsFunc(documents, func(s statement) bool { return s.number == p.Statement && slices.Contains(s.tests, top) })
		for name := range book.cases[p.Statement] {
			found = found || name == p.Case || strings.HasPrefix(name, p.Case+"/") || strings.HasPrefix(p.Case, name+"/")
		}
		if !found {
			problems = append(problems, fmt.Sprintf("%s: %s: %s is not a case of the statement", proofFile, p.Statement, p.Case))
		}
	}
	return problems
}

var date = regexp.MustCompile(`20\d\d-\d\d-\d\d`)

// isDated reports whether a name has a date within a year of today. It is likely
// to be computed, so the case has another name tomorrow.
func isDated(name string) bool {
	for _, text := range date.FindAllString(name, -1) {
		if day, err := time.Parse(time.DateOnly, text); err == nil && time.Since(day).Abs() < 365*24*time.Hour {
			return true
		}
	}
	return false
}

var definition = regexp.MustCompile(`(?m)^func (Test\w*)\(`)

// testsIn returns the names of the tests in a folder of the repository, read once.
// The empty folder is that of this package.
func testsIn(folder string) (map[string]bool, error) {
	readTests.Lock()
	defer readTests.Unlock()
	if names := readTests.in[folder]; names != nil {
		return names, nil
	}
	pattern := "*_test.go"
	if folder != "" {
		pattern = filepath.Join("..", "..", folder, pattern)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range definition.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	readTests.in[folder] = names
	return names, nil
}

var readTests = struct {
	sync.Mutex
	in map[string]map[string]bool // by folder
}{in: map[string]map[string]bool{}}

// checkTest returns an error if no source defines the test of a case.
func checkTest(name string) error {
	folder, test := splitTest(name)
	test, _, _ = strings.Cut(test, "/")
	names, err := testsIn(folder)
	if err != nil {
		return err
	}
	if !names[test] {
		return fmt.Errorf("test %s does not exist", name)
	}
	return nil
}

// splitTest returns the folder and the name of a test of another package. The
// folder of a test of this package is empty.
func splitTest(name string) (folder, test string) {
	if i := strings.Index(name, ".Test"); i >= 0 && !strings.HasPrefix(name, "Test") {
		return name[:i], name[i+1:]
	}
	return "", name
}

func TestProofsAndStatementsBelongTogether(t *testing.T) {
	proofs, err := readProofs(proofFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkProofs(statements, proofs) {
		t.Error(problem)
	}
}

func TestUnusableProofsAreReported(t *testing.T) {
	list := []statement{
		{number: "S-001", text: "one"},
		{number: "S-002", text: "two", partly: "half"},
		{number: "S-003", text: "three", lacks: "nothing"},
	}
	today := time.Now().Format(time.DateOnly)
	good := proof{Statement: "S-001", Fault: "f", Case: "TestUnusableProofsAreReported/x.Test", Message: "m"}
	for _, tt := range []struct {
		name   string
		proofs []proof
		want   []string
	}{
		{"proof", []proof{good}, nil},
		{"open", []proof{{Statement: "S-001", Open: "not tried"}}, nil},
		{"statement without a proof", nil, []string{"S-001 has no proof: break it with make break, or record in proofs.yaml why it is open"}},
		{"proof without a statement", []proof{good, {Statement: "S-004", Open: "not tried"}}, []string{`proofs.yaml: "S-004" is not a statement`}},
		{"test that does not exist", []proof{{Statement: "S-001", Fault: "f", Case: "TestNothing/x", Message: "m"}}, []string{"proofs.yaml: S-001: test TestNothing/x does not exist"}},
		{"test of another package that does not exist", []proof{{Statement: "S-001", Fault: "f", Case: "test/security.TestNothing", Message: "m"}}, []string{"proofs.yaml: S-001: test test/security.TestNothing does not exist"}},
		{"case of one day", []proof{{Statement: "S-001", Fault: "f", Case: "TestX/from_" + today, Message: "m"}}, []string{"proofs.yaml: S-001: the case TestX/from_" + today + " must have the same name on every day"}},
		{"no message", []proof{{Statement: "S-001", Fault: "f", Case: "TestNothing"}}, []string{"proofs.yaml: S-001 must have a fault, a case and a message"}},
		{"open with a fault", []proof{{Statement: "S-001", Open: "not tried", Fault: "f"}}, []string{"proofs.yaml: S-001 must be open or have a fault, not both"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := checkProofs(list, tt.proofs)
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("checkProofs = %q, want %q", got, tt.want)
			}
		})
	}
	wrong := []statement{{number: "S-001", partly: "half", tests: []string{"test/security.TestNothing"}}}
	if got := checkProofs(wrong, nil); len(got) != 1 || got[0] != "S-001: test test/security.TestNothing does not exist" {
		t.Errorf("checkProofs of a statement with an unknown test = %q", got)
	}
}
