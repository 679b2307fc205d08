package policy_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
		TestU/sub (1s)

goroutine 8 [running]:
FAIL	modelgate/internal/z	1.2s
=== RUN   TestR
==================
WARNING: DATA RACE
Read at 0x00c000096198 by goroutine 9:
  modelgate/internal/r.TestR.func1()
--- FAIL: TestR (0.00s)
FAIL
FAIL	modelgate/internal/r	0.1s
=== RUN   TestP
panic: in a goroutine

goroutine 2 [running]:
FAIL	modelgate/internal/p	0.1s
no server for the tests
FAIL	modelgate/internal/m	0.1s
internal/w/a.go:1: undefined: x
FAIL	modelgate/internal/w [build failed]
FAIL
`

func TestTheSummaryNamesFailedTestsWithTheirMessages(t *testing.T) {
	script := string(mustRead(t, "tools/test.sh"))
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
		`modelgate/internal/z TestT, TestU/sub: panic: test timed out after 1s`,
		`modelgate/internal/r TestR: WARNING: DATA RACE Read at 0x00c000096198 by goroutine 9: modelgate/internal/r.TestR.func1()`,
		`modelgate/internal/p TestP: panic: in a goroutine  goroutine 2 [running]:`,
		`modelgate/internal/m : no server for the tests`,
		`modelgate/internal/w : internal/w/a.go:1: undefined: x`,
	}
	if got := strings.Join(failed, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the summary is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if strings.Contains(string(out), "said by A") {
		t.Errorf("it repeats what a test said that passed:\n%s", out)
	}
}

// TestTheTestScriptChecksTheDiskAndLeavesNothing runs it on a disk that is nearly full, and
// ends it by a signal: a df of this test stands for the disk.
func TestTheTestScriptChecksTheDiskAndLeavesNothing(t *testing.T) {
	for _, tt := range []struct{ name, df, says string }{
		{"full", "echo Filesystem; echo disk 9 9 100 9 /", "100 MB are free on the disk of "},
		{"ended", "kill -TERM $SCRIPT", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin, temporary := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "df"), []byte("#!/bin/sh\n"+tt.df+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", "export SCRIPT=$$; exec sh tools/test.sh quick")
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.says) || strings.Contains(string(out), "QUICK") {
				t.Errorf("%v: %s", err, out)
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}
