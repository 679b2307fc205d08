// Package conformance tests the built program from outside.
//
// It builds modelgate, starts it and speaks HTTP to it, with a provider of its
// own behind it that records what arrives. Each case says which statements of
// the specification it proves; docs/conformance.md and its parts are written from
// that. What can't be seen through HTTP, the command line or an exit code is tested
// next to the packages.
package conformance

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/programtest"
)

var update = flag.Bool("update", false, "write docs/conformance.md and its parts from the statements and the cases that ran")

// program is the path of the binary under test, and scratch a folder that goes
// with the run.
var program, scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "conformance"); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(scratch)
	if program, err = programtest.Build(scratch, os.Stderr); err != nil {
		return fail(err)
	}
	defer stopShared()
	code := m.Run()
	if code != 0 {
		return book.reportFailures(code)
	}
	if !whole() {
		return 0
	}
	if problems := checkPages(); len(problems) > 0 {
		return fail(errors.New(strings.Join(problems, "\n")))
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "conformance:", err)
	return 1
}

// whole reports whether every case ran, so that what is missing says something.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// ledger keeps which cases ran for which statement, and which of them failed.
type ledger struct {
	mu     sync.Mutex
	cases  map[string]map[string]bool // statement to case to whether it passed; guarded by mu
	failed map[string]bool            // guarded by mu
}

var book = ledger{cases: map[string]map[string]bool{}, failed: map[string]bool{}}

// covers says that the case t proves the statements, which are written
// "S-263 S-491". It fails the case when one is not in the list.
func covers(t *testing.T, numbers string) {
	t.Helper()
	list := strings.Fields(numbers)
	for _, n := range list {
		if !slices.ContainsFunc(statements, func(s statement) bool { return s.number == n }) {
			t.Errorf("%s is not in the list of statements", n)
		}
	}
	t.Cleanup(func() { book.enter(t.Name(), list, !t.Failed()) })
}

func (l *ledger) enter(name string, numbers []string, passed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range numbers {
		if l.cases[n] == nil {
			l.cases[n] = map[string]bool{}
		}
		l.cases[n][name] = passed
		l.failed[n] = l.failed[n] || !passed
	}
}

func (l *ledger) reportFailures(code int) int {
	var list []string
	for _, s := range statements {
		if l.failed[s.number] {
			list = append(list, s.number)
		}
	}
	if len(list) > 0 {
		fmt.Fprintf(os.Stderr, "conformance: statements that do not hold: %s\n", strings.Join(list, " "))
	}
	return code
}

// prove runs a case of its own for the statements.
func prove(t *testing.T, numbers, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(numbers+" "+name, func(t *testing.T) {
		covers(t, numbers)
		f(t)
	})
}
