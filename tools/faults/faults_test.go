package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// example is a repository in small: a program, its conformance suite, a test of
// a package and the page that names both.
var example = map[string]string{
	"go.mod":                 "module modelgate\n\ngo 1.26\n",
	"cmd/modelgate/main.go":  "package main\n\nimport (\n\t\"fmt\"\n\t\"modelgate/sum\"\n)\n\nfunc main() { fmt.Print(sum.Of(1, 2)) }\n",
	"sum/sum.go":             "package sum\n\nimport \"os\"\n\nvar _ = os.Exit\n\n// Of adds.\nfunc Of(a, b int) int { return a + b }\n",
	"test/other/sum_test.go": "package other\n\nimport (\n\t\"testing\"\n\t\"modelgate/sum\"\n)\n\nfunc TestSum(t *testing.T) {\n\tif sum.Of(2, 2) < 4 {\n\t\tt.Error(\"sum is too small\")\n\t}\n}\n",
	"test/conformance/sum_test.go": `package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

func TestProgram(t *testing.T) {
	t.Run("S-001 sum", func(t *testing.T) {
		out, err := exec.Command(os.Getenv("MODELGATE_BINARY")).Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(out) != "3" {
			fmt.Println("conformance: statements that do not hold: S-001")
			t.Errorf("sum = %s, want 3", out)
		}
	})
}
`,
	"docs/conformance/sums.md": "| number | statement | state | tests | faults noticed |\n|---|---|---|---|---|\n" +
		"| S-001 | It adds. | covered | `TestProgram` (2) | a `TestNothing` fault |\n" +
		"| S-002 | It subtracts \\| negates. | open: not tried | `TestProgram` |  |\n" +
		"| S-003 | It divides. | later (after 2): nothing |  |  |\n" +
		"| M-001 | It adds enough. | covered | `test/other.TestSum` |  |\n",
}

func mustWriteExample(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range example {
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

func mustReadAll(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path := range example {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(b)
	}
	return files
}

func TestEditsAreReported(t *testing.T) {
	root := mustWriteExample(t)
	for _, tt := range []struct {
		name       string
		statements string
		old, new   string
		want       []string // beginnings of the lines that are printed
		status     int
	}{
		{"fault", "S-001", "a + b", "a - b", []string{"noticed  S-001 f: TestProgram/S-001_sum: sum = -1, want 3"}, 0},
		{"fault that another package notices", "M-001", "a + b", "a - b", []string{"noticed  M-001 f: test/other.TestSum: sum is too small"}, 0},
		{"statement whose test passes", "S-001 M-001", "a + b", "a + b + 1", []string{"noticed  S-001", "survived M-001 f: test/other.TestSum"}, 1},
		{"failure of another statement's case", "S-002", "a + b", "a - b", []string{"survived S-002"}, 1},
		{"edit that changes nothing", "S-001", "a + b", "b + a", []string{"survived S-001"}, 1},
		{"same text", "S-001", "a + b", "a + b", []string{"survived S-001"}, 1},
		{"text that is not there", "S-001", "a * b", "a - b", []string{"no match S-001 f: sum/sum.go: the text is there 0 times, must be once"}, 1},
		{"text that occurs twice", "S-001", "O", "P", []string{"no match S-001 f: sum/sum.go: the text is there 2 times, must be once"}, 1},
		{"edit that does not compile", "S-001", "a + b", "a + c", []string{"no build S-001 f: sum/sum.go:8:36: undefined: c"}, 1},
		{"edit that does not compile in another package's test", "M-001", "a + b", "a + c", []string{"no build M-001 f: sum/sum.go:8:36: undefined: c"}, 1},
		{"test that crashes", "M-001", "a + b", "a + b/(a-2)", []string{"noticed  M-001 f: test/other.TestSum"}, 0},
		{"test program that exits", "M-001", "int { return a + b }", "int { panic(exit()) }\n\nfunc exit() string { println(\"panic: out of memory\"); os.Exit(2); return \"\" }", []string{"no end   M-001 f: the tests of test/other: panic: out of memory"}, 1},
		{"test program that is killed", "M-001 S-001", "return a + b", "if a == 2 {\n\t\tp, _ := os.FindProcess(os.Getpid())\n\t\tp.Kill()\n\t\tselect {}\n\t}\n\treturn a - b", []string{"no end   M-001 f: the tests of test/other: signal: killed", "noticed  S-001"}, 1},
		{"statement without a test", "S-003", "a + b", "a - b", []string{"no tests S-003 f: docs/conformance names none"}, 1},
		{"statement that is not there", "S-004", "a + b", "a - b", []string{"no tests S-004"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := run([]string{"-root", root, "-statements", tt.statements, "-fault", "f", "-file", "sum/sum.go", "-old", tt.old, "-new", tt.new}, &out, &errs)
			if status != tt.status {
				t.Errorf("status = %d, want %d\n%s%s", status, tt.status, &out, &errs)
			}
			lines := strings.Split(out.String(), "\n")
			for i, want := range tt.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %d = %q, want a beginning of %q", i, lines[i], want)
				}
			}
		})
	}
	if !maps.Equal(mustReadAll(t, root), example) {
		t.Error("the edits changed the sources")
	}
}

func TestFilesOfEditsAreTriedAndRecorded(t *testing.T) {
	root := mustWriteExample(t)
	edits, proofs := filepath.Join(root, "edits.yaml"), filepath.Join(root, "proofs.yaml")
	const text = `
- statements: [S-001]
  fault: the sum is a difference
  changes: [{file: sum/sum.go, old: a + b, new: a - b}]
- statements: [M-001, S-001]
  fault: the first summand is lost
  changes:
    - {file: sum/sum.go, old: a + b, new: a * b}
    - {file: sum/sum.go, old: a * b, new: "0 * a + b"}
- statements: [M-001]
  fault: nothing
  changes: [{file: sum/sum.go, old: a + b, new: b + a}]
`
	if err := os.WriteFile(edits, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second run replaces the proofs of the first
		var out, errs bytes.Buffer
		if status := run([]string{"-root", root, "-edits", edits, "-record", proofs}, &out, &errs); status != 1 {
			t.Fatalf("status = %d, want 1 for the survivor\n%s%s", status, &out, &errs)
		}
	}
	const want = `- statement: M-001
  fault: "the first summand is lost"
  case: "test/other.TestSum"
  message: "sum is too small"
- statement: S-001
  fault: "the sum is a difference"
  case: "TestProgram/S-001_sum"
  message: "sum = -1, want 3"
- statement: S-001
  fault: "the first summand is lost"
  case: "TestProgram/S-001_sum"
  message: "sum = 2, want 3"
`
	got, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("proofs =\n%s\nwant\n%s", got, want)
	}
}

func TestUnusableArgumentsAreUsageErrors(t *testing.T) {
	root := mustWriteExample(t)
	file := filepath.Join(t.TempDir(), "edits.yaml")
	for _, tt := range []struct{ name, text, want string }{
		{"no edits", "[]", "the file has no edits"},
		{"no statement", "- {fault: f, changes: [{file: a, old: b, new: c}]}", "edit 1: statements is required"},
		{"no fault", "- {statements: [S-001], changes: [{file: a, old: b, new: c}]}", "edit 1: fault is required"},
		{"no change", "- {statements: [S-001], fault: f}", "edit 1: changes is required"},
		{"file outside", "- {statements: [S-001], fault: f, changes: [{file: ../a, old: b, new: c}]}", "../a must be a path inside the repository"},
		{"unknown field", "- {statement: S-001}", "unknown field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if status := run([]string{"-root", root, "-edits", file}, &out, &errs); status != 2 || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("status %d, message %q; want 2 and %q", status, errs.String(), tt.want)
			}
		})
	}
	for _, args := range [][]string{{}, {"-edits", "x", "-file", "y"}, {"-edits", "x", "z"}, {"-unknown"}} {
		var out, errs bytes.Buffer
		if status := run(append([]string{"-root", root}, args...), &out, &errs); status != 2 {
			t.Errorf("run(%q) = %d, want 2", args, status)
		}
	}
}

func TestTestsThatRanOutOfTimeAreNamed(t *testing.T) {
	o := outcome{cut: map[string]string{}}
	o.add("internal/a", []byte("panic: test timed out after 10m0s\n\trunning tests:\n\t\tTestA (9m1s)\n\t\tTestB/case (8m0s)\n\ngoroutine 1:\nFAIL\tmodelgate/internal/a\t600.1s\nFAIL\n"), errors.New("exit status 1"))
	o.add("internal/b", []byte("--- FAIL: TestC (0.00s)\n    b_test.go:1: x\nFAIL\nFAIL\tmodelgate/internal/b\t0.1s\nFAIL\n"), errors.New("exit status 1"))
	want := map[string]string{"internal/a": "panic: test timed out after 10m0s in TestA (9m1s), TestB/case (8m0s)"}
	if !maps.Equal(o.cut, want) {
		t.Errorf("cut = %q, want %q", o.cut, want)
	}
	if r := o.verdict(edit{Fault: "f"}, "M-001", []string{"internal/a.TestA"}); r.outcome != noEnd {
		t.Errorf("a statement whose test ran out of time: %s", r)
	}
	if r := o.verdict(edit{Fault: "f"}, "M-001", []string{"internal/b.TestC"}); r.outcome != noticed {
		t.Errorf("a statement whose test failed next to it: %s", r)
	}
}
