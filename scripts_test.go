package modelgate_test

import (
	"os/exec"
	"strings"
	"testing"
)

// testOutput is what go test -v prints: a failed subtest and a test that passes, a
// test that ends its program, and a package that is not built.
const testOutput = `=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
=== RUN   TestB/sub
    limits_test.go:58: Get "http://127.0.0.1": context canceled
=== NAME  TestA
    a_test.go:1: said by A
--- FAIL: TestB (0.10s)
    --- FAIL: TestB/sub (0.01s)
--- PASS: TestA (0.00s)
FAIL
FAIL	modelgate/internal/x	0.123s
ok  	modelgate/internal/y	0.123s
=== RUN   TestT
panic: test timed out after 1s
	running tests:
		TestT (1s)
FAIL	modelgate/internal/z	1.2s
internal/w/a.go:1: undefined: x
FAIL	modelgate/internal/w [build failed]
FAIL
`

func TestTheSummaryNamesFailedTestsWithTheirMessages(t *testing.T) {
	script := string(mustRead(t, "scripts/test.sh"))
	start := strings.Index(script, "\ncondense() {")
	end := start + strings.Index(script[start:], "\n}\n") + 3
	cmd := exec.Command("sh", "-c", script[start:end]+"condense")
	cmd.Stdin = strings.NewReader(testOutput)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var failed []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "failed: "); ok {
			failed = append(failed, strings.TrimSpace(name))
		}
	}
	want := []string{
		`modelgate/internal/x TestB/sub: limits_test.go:58: Get "http://127.0.0.1": context canceled`,
		`modelgate/internal/z TestT: panic: test timed out after 1s running tests: TestT (1s)`,
		`modelgate/internal/w : internal/w/a.go:1: undefined: x`,
	}
	if got := strings.Join(failed, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the summary is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if strings.Contains(string(out), "said by A") {
		t.Errorf("it repeats what a test said that passed:\n%s", out)
	}
}
