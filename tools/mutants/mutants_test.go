package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// example is a repository in small: a package whose tests check a part of it,
// and a package with tests of both.
var example = map[string]string{
	"go.mod": "module modelgate\n\ngo 1.26\n",
	"sum/sum.go": `package sum

const offset = 1 + 1

// Label joins texts.
func Label(a string) string { return a + "!" }

// Larger returns the larger number.
func Larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Count counts down.
func Count(n int) (steps int) {
	for n != 0 {
		n--
		steps++
	}
	return steps
}

// Share returns a part.
func Share(a, b float64) float64 { return a / b }

// Unused is not tested.
func Unused(a int) int { return -a + offset }
`,
	"sum/sum_test.go": `package sum

import "testing"

func TestLarger(t *testing.T) {
	if Larger(1, 2) != 2 || Larger(2, 1) != 2 || Larger(2, 2) != 2 {
		t.Error("not the larger one")
	}
}

func TestCount(t *testing.T) {
	if Count(3) != 3 {
		t.Error("miscounted")
	}
}

func TestLabel(t *testing.T) {
	if Label("a") != "a!" {
		t.Error("wrong label")
	}
}
`,
	"other/other_test.go": `package other

import (
	"testing"

	"modelgate/sum"
)

func TestShare(t *testing.T) {
	if sum.Share(6, 3) != 2 {
		t.Error("wrong share")
	}
}
`,
	"survivors.yaml": `- package: sum
  file: sum.go
  function: Larger
  before: a > b
  after: ">="
  reason: of two equal numbers either will do
`,
}

func mustWriteExample(t *testing.T, changes map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range example {
		if changed, ok := changes[path]; ok {
			text = changed
		}
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// mustRun runs the command in a repository and returns its exit status and what
// it prints.
func mustRun(t *testing.T, root string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(append([]string{"-root", root, "-explained", "survivors.yaml", "-timeout", "10s"}, args...), &o, &e)
	return status, o.String(), e.String()
}

func TestSurvivorsAreReportedWithTheirReason(t *testing.T) {
	t.Parallel()
	root := mustWriteExample(t, nil)
	status, out, errs := mustRun(t, root, "-package", "sum", "-least", "50")
	if status != 1 {
		t.Errorf("status %d, want 1: %s", status, errs)
	}
	want := `sum: 8 changes, 3 tests
survived    sum.go:10 Larger: a > b with >=: of two equal numbers either will do
not reached sum.go:26 Share: a / b with *: NOT EXPLAINED
not reached sum.go:29 Unused: -a + offset with -: NOT EXPLAINED
not reached sum.go:29 Unused: -a with no sign: NOT EXPLAINED
sum: 50.0 % of 8 killed: `
	if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "1 survived, 3 not reached, 3 of these not explained\n") {
		t.Errorf("printed\n%s\nwant\n%s…", out, want)
	}
	if n := strings.Count(errs, " of 8: "); n != 8 || !strings.Contains(errs, "1 of 8: survived sum.go:10 Larger: a > b with >=\n") {
		t.Errorf("%d of 8 outcomes were reported at once:\n%s", n, errs)
	}
}

func TestTestsOfOtherPackagesKill(t *testing.T) {
	t.Parallel()
	root := mustWriteExample(t, map[string]string{
		"sum/sum.go": strings.ReplaceAll(example["sum/sum.go"], "func Unused(a int) int { return -a + offset }", ""),
	})
	status, out, errs := mustRun(t, root, "-package", "sum", "-tests", "other", "-least", "83")
	if status != 0 || !strings.Contains(out, "83.3 % of 6 killed: ") || !strings.Contains(out, "1 survived, 0 not reached, 0 of these not explained") {
		t.Errorf("status %d, want 0: %s%s", status, out, errs)
	}
	if _, out, _ := mustRun(t, root, "-package", "sum", "-tests", "other", "-skip", "Share|Count"); !strings.Contains(out, "6 changes, 2 tests") || !strings.Contains(out, "not reached sum.go:26 Share") {
		t.Errorf("without two tests: %s", out)
	}
	if _, out, _ := mustRun(t, root, "-package", "sum", "-file", "sum.go"); !strings.Contains(out, "6 changes, ") {
		t.Errorf("of one file: %s", out)
	}
	if status, out, _ := mustRun(t, root, "-package", "sum", "-tests", "other", "-least", "84"); status != 1 {
		t.Errorf("84 percent wanted: status %d, want 1: %s", status, out)
	}
}

// The numbers of changes differ after an edit of the package, and the lines too.
func TestASampleStaysWhenThePackageChanges(t *testing.T) {
	var all []mutant
	for i := range 100 {
		all = append(all, mutant{id: i + 1, file: fmt.Sprint(i/30, ".go"), line: i, function: "f", before: fmt.Sprint("a < ", i/2), after: "<="})
	}
	changes := func(list []mutant) (out []string) {
		for i, m := range list {
			if i > 0 && m.id <= list[i-1].id {
				t.Fatalf("%v is not ascending", list)
			}
			out = append(out, m.file+m.change())
		}
		return out
	}
	first := changes(choose(all, 1, 0, 10))
	if len(first) != 10 || !slices.Equal(first, changes(choose(all, 1, 0, 10))) {
		t.Fatalf("the sample %v, want ten that are the same each time", first)
	}
	var edited []mutant
	for i, m := range slices.Insert(slices.Clone(all), 20, mutant{file: "0.go", function: "new", before: "b == c", after: "!="}) {
		m.id, m.line = i+1, m.line+7
		edited = append(edited, m)
	}
	kept := 0
	for _, c := range changes(choose(edited, 1, 0, 10)) {
		if slices.Contains(first, c) {
			kept++
		}
	}
	if kept < 9 {
		t.Errorf("after an edit %d of 10 changes are still in the sample, want 9 at least", kept)
	}
	if slices.Equal(first, changes(choose(all, 2, 0, 10))) {
		t.Error("another seed gives the same sample")
	}
	if n := len(choose(all, 1, 0, 0)); n != 100 {
		t.Errorf("a sample of 0 has %d changes, want all 100", n)
	}
	few := map[string]int{}
	for _, m := range choose(all, 1, 4, 0) {
		few[m.file]++
	}
	if want := map[string]int{"0.go": 4, "1.go": 4, "2.go": 4, "3.go": 4}; !maps.Equal(few, want) {
		t.Errorf("by file %v, want %v", few, want)
	}
	if n := len(choose(all, 1, 4, 5)); n != 5 {
		t.Errorf("a sample of 5 of them has %d", n)
	}
}

func TestPackagesThatCannotBeMeasuredAreErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		changes map[string]string
		args    []string
		want    string
	}{
		"no package":          {nil, nil, "Usage"},
		"an unknown package":  {nil, []string{"-package", "nothing"}, "nothing"},
		"nothing to change":   {map[string]string{"sum/sum.go": "package sum\n"}, []string{"-package", "sum"}, "no operators to change"},
		"no such file":        {nil, []string{"-package", "sum", "-file", "other"}, "no operators to change"},
		"a bad pattern":       {nil, []string{"-package", "sum", "-file", "("}, "-file: error parsing regexp"},
		"a test that fails":   {map[string]string{"sum/sum_test.go": strings.Replace(example["sum/sum_test.go"], "!= 3", "!= 4", 1)}, []string{"-package", "sum"}, "TestCount fails without a mutant"},
		"a list with a hole":  {map[string]string{"survivors.yaml": "- package: sum\n"}, []string{"-package", "sum"}, "entry 1: package, file, before, after and reason are required"},
		"a list out of order": {map[string]string{"survivors.yaml": "- colour: red\n"}, []string{"-package", "sum"}, "survivors.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, out, errs := mustRun(t, mustWriteExample(t, tt.changes), tt.args...)
			if status != 2 || !strings.Contains(errs, tt.want) {
				t.Errorf("status %d, want 2 and %q: %s%s", status, tt.want, out, errs)
			}
		})
	}
}
