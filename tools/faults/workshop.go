package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Outcomes of an edit for one statement.
const (
	noticed  = "noticed"  // a test of the statement failed
	survived = "survived" // every test of the statement passed
	noMatch  = "no match" // the edit does not apply
	noBuild  = "no build" // the program does not compile with the edit
	noTests  = "no tests" // nothing names a test for the statement
	noEnd    = "no end"   // its tests crashed, were killed or ran out of time
)

// program is the name of the binary under test.
const program = "modelgate"

// conformance is the folder of the tests whose names in the page have none.
const conformance = "test/conformance"

// result is what an edit came to for one statement.
type result struct {
	statement string
	outcome   string
	failed    string // the case that failed
	message   string // its message, or why there is none
	fault     string
}

func (r result) String() string {
	line := fmt.Sprintf("%-8s %s %s", r.outcome, r.statement, r.fault)
	if r.failed != "" {
		line += ": " + r.failed
	}
	if r.message != "" {
		line += ": " + r.message
	}
	return line
}

// workshop builds and tests the program with edits. It is not safe for
// concurrent use.
type workshop struct {
	root  string
	dir   string              // scratch
	named map[string][]string // statement to the tests that its page names
	ready string              // compiled conformance tests; empty until they are needed
}

func newWorkshop(root string) (*workshop, error) {
	named, err := readPages(filepath.Join(root, "docs", "conformance"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return nil, err
	}
	return &workshop{root: root, dir: dir, named: named}, nil
}

func (w *workshop) close() error { return os.RemoveAll(w.dir) }

var (
	pageRow  = regexp.MustCompile(`(?m)^\| ([SM]-\d+) \| (.*) \|$`)
	pageTest = regexp.MustCompile("`((?:[\\w/]+\\.)?Test\\w+)`")
)

// testsCell is the column of tests after that of numbers.
const testsCell = 2

// readPages returns the tests that the pages in folder name for each statement:
// TestX of the conformance suite, test/security.TestX of another package.
func readPages(folder string) (map[string][]string, error) {
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("%s has no pages", folder)
	}
	named := map[string][]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		for _, row := range pageRow.FindAllStringSubmatch(string(text), -1) {
			named[row[1]] = nil
			cells := strings.Split(row[2], " | ") // statement, state, tests, faults
			if len(cells) < testsCell+1 {
				return nil, fmt.Errorf("%s: %s has no column of tests", page, row[1])
			}
			for _, test := range pageTest.FindAllStringSubmatch(cells[testsCell], -1) {
				named[row[1]] = append(named[row[1]], test[1])
			}
		}
	}
	return named, nil
}

// try applies an edit, runs the tests of its statements and returns a result for
// each of them.
func (w *workshop) try(e edit) []result {
	dir, err := os.MkdirTemp(w.dir, "edit")
	if err != nil {
		return every(e, noMatch, err.Error())
	}
	defer os.RemoveAll(dir)
	overlay, err := e.overlay(w.root, dir)
	if err != nil {
		return every(e, noMatch, err.Error())
	}
	tests := map[string][]string{} // statement to its tests
	folders := map[string][]string{}
	for _, s := range e.Statements {
		tests[s] = w.named[s]
		if len(e.Tests) > 0 {
			tests[s] = e.Tests
		}
		for _, t := range tests[s] {
			folder, name := split(t)
			if !slices.Contains(folders[folder], name) {
				folders[folder] = append(folders[folder], name)
			}
		}
	}
	if folders[conformance] != nil {
		if out, err := w.command(overlay, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, program),
			"./cmd/modelgate").CombinedOutput(); err != nil {
			return every(e, noBuild, firstError(out, dir))
		}
	}
	o := outcome{broken: map[string]bool{}, cut: map[string]string{}}
	for folder, names := range folders {
		out, err := w.test(overlay, filepath.Join(dir, program), folder, names)
		if errors.Is(err, errNoBuild) {
			return every(e, noBuild, firstError(out, dir))
		}
		o.add(folder, out, err)
	}
	var results []result
	for _, s := range e.Statements {
		results = append(results, o.verdict(e, s, tests[s]))
	}
	return results
}

// errNoBuild says that tests were not run because they do not compile.
var errNoBuild = errors.New("the tests do not compile")

var notBuilt = regexp.MustCompile(`(?m)^FAIL\t.* \[(build|setup) failed\]$`)

// test runs the named tests of a package with the edit and returns their output, and
// errNoBuild if they do not compile.
func (w *workshop) test(overlay, binary, folder string, names []string) ([]byte, error) {
	pattern := "^(" + strings.Join(names, "|") + ")$"
	if folder != conformance {
		out, err := w.command(overlay, "go", "test", "-vet=off", "-count=1", "-timeout=10m", "-run", pattern, "./"+folder).CombinedOutput()
		if err != nil && notBuilt.Match(out) {
			err = errNoBuild
		}
		return out, err
	}
	if w.ready == "" {
		ready := filepath.Join(w.dir, "conformance.test")
		if out, err := w.command("", "go", "test", "-vet=off", "-c", "-o", ready, "./"+conformance).CombinedOutput(); err != nil {
			return out, errNoBuild
		}
		w.ready = ready
	}
	cmd := w.command(overlay, w.ready, "-test.timeout=10m", "-test.run", pattern)
	cmd.Dir = filepath.Join(w.root, conformance)
	cmd.Env = append(cmd.Env, "MODELGATE_BINARY="+binary)
	return cmd.CombinedOutput()
}

// command returns a command of the root whose go commands read the overlay,
// those that tests start included.
func (w *workshop) command(overlay, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = w.root
	cmd.Env = os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	return cmd
}

func every(e edit, outcome, message string) []result {
	var list []result
	for _, s := range e.Statements {
		list = append(list, result{statement: s, outcome: outcome, message: message, fault: e.Fault})
	}
	return list
}

// split returns the folder and the name of a test as the page writes it.
func split(test string) (folder, name string) {
	if i := strings.LastIndexByte(test, '.'); i >= 0 {
		return test[:i], test[i+1:]
	}
	return conformance, test
}

// firstError returns the first line that a go command reports, without the
// package that it belongs to and without the folder of edited files.
func firstError(out []byte, dir string) string {
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			if _, inside, ok := strings.Cut(line, "/"+filepath.Base(dir)+"/"); ok { // absolute or relative, whichever is shorter
				return inside
			}
			return line
		}
	}
	return "no output"
}
