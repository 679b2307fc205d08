package main

import (
	"regexp"
	"slices"
	"strings"
)

// outcome is what the tests of an edit said.
type outcome struct {
	failures []failure
	broken   map[string]bool   // statements that the conformance suite reports
	cut      map[string]string // package whose tests did not all run, to the reason
}

// add notes the output of the tests of a package, which err says failed.
func (o *outcome) add(folder string, out []byte, err error) {
	o.failures = append(o.failures, readFailures(folder, out)...)
	for _, s := range readBroken(out) {
		o.broken[s] = true
	}
	if err != nil && !ended(out) {
		o.cut[folder] = whyCut(out, err)
	}
}

// ended reports whether a test program that failed ran all of its tests: it ends with
// FAIL before the go command tells its time, and without a panic.
func ended(out []byte) bool {
	own, _, _ := strings.Cut("\n"+string(out), "\nFAIL\t")
	return slices.Contains(strings.Split(own, "\n"), "FAIL")
}

var (
	cutLine    = regexp.MustCompile(`(?m)^(panic: |fatal error: |signal: ).*$`)
	runningRow = regexp.MustCompile(`(?m)^\t\t(Test\S+ \(.*\))$`)
)

// whyCut returns in one line why a test program ended before its tests did, with the
// tests that were running.
func whyCut(out []byte, err error) string {
	why := string(cutLine.Find(out))
	if why == "" {
		why = err.Error()
	}
	var running []string
	for _, m := range runningRow.FindAllSubmatch(out, -1) {
		running = append(running, string(m[1]))
	}
	if len(running) > 0 {
		why += " in " + strings.Join(running, ", ")
	}
	return why
}

// verdict returns what an edit came to for one of its statements.
func (o *outcome) verdict(e edit, statement string, tests []string) result {
	r := result{statement: statement, fault: e.Fault, outcome: survived}
	if len(tests) == 0 {
		r.outcome, r.message = noTests, "docs/conformance names none"
		return r
	}
	var found *failure
	for i, f := range o.failures {
		if !slices.Contains(tests, f.top()) || f.folder == conformance && !o.broken[statement] {
			continue
		}
		if found == nil || !found.names(statement) && f.names(statement) {
			found = &o.failures[i]
		}
	}
	if found != nil {
		r.outcome, r.failed, r.message = noticed, found.path(), found.message
		return r
	}
	r.message = strings.Join(tests, " ")
	for _, t := range tests {
		folder, _ := split(t)
		if why := o.cut[folder]; why != "" {
			r.outcome, r.message = noEnd, "the tests of "+folder+": "+why
		}
	}
	return r
}
