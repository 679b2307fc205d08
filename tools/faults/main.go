// Command faults proves tests by breaking the program.
//
// It applies one fault at a time to the sources, builds the program, runs the
// tests that docs/conformance/ names for the fault's statements and reports
// the statements whose tests still pass. The working tree is never changed: the
// compiler reads a fault from an overlay.
//
// It guarantees that a fault counts as noticed only when a test of the statement
// failed after the fault compiled. It does not invent faults; see
// docs/conformance.md for what a proof is.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const usage = `Usage: make break ARGS="-edits FILE"
       make break ARGS="-statements 'S-025 S-090' -fault TEXT -file PATH -old TEXT -new TEXT"

Breaks the program once per edit and runs the tests of its statements.

FILE holds a YAML list of edits:

  - statements: [S-025, S-090]
    fault: a target without a weight gets weight 0
    changes:
      - {file: config/tree.go, old: "Weight: 1", new: "Weight: 0"}
    tests: [TestLoadIsBalancedByWeight]   # instead of those that docs/conformance/ names

old must be in the file exactly once. Exit status: 0 when every statement
noticed its fault, 1 when one did not or an edit cannot be used, 2 for a usage
error.

`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the command with its arguments and returns its exit status.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprint(errs, usage); flags.PrintDefaults() }
	var (
		root       = flags.String("root", ".", "root of the repository")
		edits      = flags.String("edits", "", "file of edits, - for standard input")
		record     = flags.String("record", "", "file of proofs that the noticed faults are written to, such as test/conformance/proofs.yaml")
		statements = flags.String("statements", "", "statements of the edit given by -file, -old and -new, separated by spaces")
		fault      = flags.String("fault", "an edit of the command line", "what the edit breaks")
		file       = flags.String("file", "", "file to edit, relative to the root")
		before     = flags.String("old", "", "text to replace, exactly once in the file")
		after      = flags.String("new", "", "text to put there")
		tests      = flags.String("tests", "", "tests to run instead of those that docs/conformance/ names, separated by spaces")
	)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var list []edit
	var err error
	switch {
	case flags.NArg() > 0 || (*edits == "") == (*file == ""):
		flags.Usage()
		return 2
	case *edits != "":
		list, err = readEdits(*edits)
	default:
		list = []edit{{
			Statements: strings.Fields(*statements), Fault: *fault, Tests: strings.Fields(*tests),
			Changes: []change{{File: *file, Old: *before, New: *after}},
		}}
		err = list[0].check()
	}
	if err != nil {
		fmt.Fprintln(errs, "faults:", err)
		return 2
	}
	survived, err := breakAll(*root, *record, list, out)
	if err != nil {
		fmt.Fprintln(errs, "faults:", err)
		return 2
	}
	if survived > 0 {
		return 1
	}
	return 0
}

// breakAll tries every edit, writes one line per statement and returns how many
// statements have no proof afterwards. Noticed faults are added to the file
// record after each edit, unless it is empty.
func breakAll(root, record string, list []edit, out io.Writer) (unproved int, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	w, err := newWorkshop(root)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, e := range list {
		var proofs []proof
		for _, r := range w.try(e) {
			fmt.Fprintln(out, r)
			if r.outcome != noticed {
				unproved++
				continue
			}
			proofs = append(proofs, proof{Statement: r.statement, Fault: e.Fault, Case: r.failed, Message: r.message})
		}
		if record == "" {
			continue
		}
		if err := addProofs(record, proofs); err != nil {
			return unproved, err
		}
	}
	fmt.Fprintf(out, "faults: %d edits, %d statements without a proof\n", len(list), unproved)
	return unproved, nil
}
