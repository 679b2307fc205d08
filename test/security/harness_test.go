// Package security attacks the built program from outside.
//
// It builds modelgate, starts it with a provider of its own behind it that
// records what it receives, and tries what an outsider, a program with an
// ordinary key, a workspace member and another organisation would try. Every
// case is registered with [attack] under one of the classes of docs/security.md.
// A case passes when the attack fails and legitimate use still works.
//
// A test runs in parallel unless it measures time, memory, disk or processor time
// of a gateway, or counts what the shared provider received.
package security

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/programtest"
)

// classes are the kinds of attack that docs/security.md names.
var classes = []string{
	"isolation", "escalation", "credential theft", "address guard", "injection", "smuggling",
	"bodies", "tokens", "sessions", "exhaustion", "log and export", "at rest",
}

// leastCases is how many cases a complete run must have.
const leastCases = 300

// program is the path of the binary under test, scratch a folder that is
// removed with the run.
var program, scratch string

// tally counts the cases that ran, by class.
var tally = struct {
	sync.Mutex
	cases map[string]int // guarded by Mutex
}{cases: map[string]int{}}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := raiseParallel(); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

// raiseParallel lets eight tests run at a time unless -parallel is given: they
// wait for programs and clocks, not for the processor.
func raiseParallel() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "8")
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "security"); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(scratch)
	if program, err = programtest.Build(scratch, os.Stderr); err != nil {
		return fail(err)
	}
	defer stopShared()
	code := m.Run()
	if code == 0 && complete() {
		return report()
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "security:", err)
	return 1
}

// complete reports whether every case was asked for.
func complete() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// report prints the number of cases by class. It fails when a class has none, or
// all together have fewer than leastCases.
func report() (code int) {
	tally.Lock()
	defer tally.Unlock()
	sum := 0
	for _, class := range classes {
		n := tally.cases[class]
		sum += n
		fmt.Printf("security: %-16s %4d cases\n", class, n)
		if n == 0 {
			code = fail(fmt.Errorf("no case of class %q ran", class))
		}
	}
	fmt.Printf("security: %-16s %4d cases\n", "total", sum)
	if sum < leastCases {
		code = fail(fmt.Errorf("%d cases ran, want at least %d", sum, leastCases))
	}
	return code
}

// attack runs one case of a class.
func attack(t *testing.T, class, name string, f func(t *testing.T)) {
	t.Helper()
	if !slices.Contains(classes, class) {
		t.Fatalf("class %q is not one of %s", class, strings.Join(classes, ", "))
	}
	t.Run(class+": "+name, func(t *testing.T) {
		tally.Lock()
		tally.cases[class]++
		tally.Unlock()
		f(t)
	})
}
