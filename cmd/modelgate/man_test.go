package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	const date = "SOURCE_DATE_EPOCH=1700000000"
	if code, _, errs := invoke(t, []string{date}, "", "man", dir); code != 0 {
		t.Fatalf("man = %d: %s", code, errs)
	}
	files, err := os.ReadDir(dir)
	all := listed(newProgram().tree(nil, func([]string) []*cobra.Command { return newProgram().administration([]string{"man"}) }))
	if err != nil || len(files) != len(all) {
		t.Fatalf("%d pages for %d commands, %v", len(files), len(all), err)
	}
	for _, c := range all {
		page, err := os.ReadFile(filepath.Join(dir, pageName(c)+".1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"2023-11-14", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLES", roff(c.Short)} {
			if !bytes.Contains(page, []byte(want)) {
				t.Errorf("the page of %s does not have %q", c.CommandPath(), want)
			}
		}
		for _, name := range flagNames(c) {
			if !bytes.Contains(page, []byte(roff("--"+name))) {
				t.Errorf("the page of %s does not have --%s", c.CommandPath(), name)
			}
		}
	}
	checkPages(t, dir)
}

// checkPages formats pages with a formatter of this machine, if there is one. It must print
// no warnings.
func checkPages(t *testing.T, dir string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, formatter := range [][]string{{"groff", "-man", "-ww", "-z", "-Tutf8"}, {"mandoc", "-Tlint", "-Wwarning"}} {
		path, err := exec.LookPath(formatter[0])
		if err != nil {
			t.Logf("%s is not installed", formatter[0])
			continue
		}
		out, err := exec.CommandContext(t.Context(), path, append(formatter[1:], pages...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%.2000s", formatter[0], err, out)
		}
	}
}

func TestManualPagesHaveADateOnlyIfItIsGiven(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if code, _, errs := invoke(t, nil, "", "man", dir); code != 0 {
			t.Fatalf("man = %d: %s", code, errs)
		}
	}
	a, errA := os.ReadFile(filepath.Join(first, "modelgate-serve.1"))
	b, errB := os.ReadFile(filepath.Join(second, "modelgate-serve.1"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) || !strings.HasPrefix(string(a), `.TH MODELGATE\-SERVE 1 "" `) {
		t.Errorf("pages: %v, %v, equal: %t, %.80s", errA, errB, bytes.Equal(a, b), a)
	}
	if code, _, errs := invoke(t, []string{"SOURCE_DATE_EPOCH=today"}, "", "man", first); code != 2 || !strings.Contains(errs, "SOURCE_DATE_EPOCH") {
		t.Errorf("man with a wrong date = %d: %s", code, errs)
	}
	if code, _, errs := invoke(t, nil, "", "man", filepath.Join(first, "modelgate-serve.1")); code != 1 || strings.Count(errs, "\n") != 1 {
		t.Errorf("man into a file = %d: %s", code, errs)
	}
}

func TestTextOfManualPagesHasNoRequests(t *testing.T) {
	for text, want := range map[string]string{
		".so /etc/passwd": `\&.so /etc/passwd`,
		"'x":              `\&'x`,
		`a\fB`:            `a\efB`,
		"--data":          `\-\-data`,
		"a\n.b":           "a .b",
		"→":               `\[u2192]`,
		"a,b":             `a,\:b`,
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
}
