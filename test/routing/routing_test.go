// Package routing tests where exchanges go when providers fail.
//
// The fault matrix sends every fault of the simulator through the running
// gateway, streamed and not, by every way of routing. The simulation runs the
// same routing code on a clock of its own against scripted targets, many times
// over. Both write a summary to testdata that is reviewed like code; -update
// writes it again. How single strategies decide is the subject of the tests of pipeline.
package routing

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// TestMain lets more cells of the matrix run at a time than there are cores,
// since most of what they do is wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write the golden summaries again")

// golden compares a summary with the file that was reviewed.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run go test -update and review what it writes", err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := line(gotLines, i), line(wantLines, i); g != w {
			t.Errorf("%s:%d\n got %s\nwant %s", file, i+1, g, w)
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
