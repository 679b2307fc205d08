package policy_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how long a line of code may be; a tab is one column. A text in a line is
// never cut, because one searches for it: a line that is longer because of a text has
// maxBeside columns at most next to it.
const (
	maxColumns = 140
	maxBeside  = 100
	minText    = 80
)

// wide are the files and folders whose lines may be longer, and why.
var wide = []struct{ where, why string }{}

func TestLinesOfCodeFitTheScreen(t *testing.T) {
	used := map[string]bool{}
	for _, name := range mustFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		problems := wideLines(mustRead(t, name))
		if len(problems) == 0 {
			continue
		}
		if where := wideFile(name); where != "" {
			used[where] = true
			continue
		}
		for _, p := range problems {
			t.Errorf("%s:%s", name, p)
		}
	}
	for _, w := range wide {
		if !used[w.where] {
			t.Errorf("no line of %s is longer than %d columns: remove it from wide", w.where, maxColumns)
		}
	}
}

// wideFile returns the entry of wide that a file belongs to, or "".
func wideFile(name string) string {
	for _, w := range wide {
		if name == w.where || within(path.Dir(name), w.where) {
			return w.where
		}
	}
	return ""
}

// wideLines returns the lines that are too long.
func wideLines(source []byte) (problems []string) {
	texts := textColumns(source)
	for i, line := range strings.Split(string(source), "\n") {
		columns := utf8.RuneCountInString(line)
		if columns <= maxColumns || texts[i+1] >= minText && columns-texts[i+1] <= maxBeside {
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "//") && strings.Contains(line, "://") {
			continue // an address
		}
		problems = append(problems, fmt.Sprintf("%d: has %d columns; break it, or give a long text its own line", i+1, columns))
	}
	return problems
}

// textColumns returns the columns of the longest string in each line.
func textColumns(source []byte) map[int]int {
	columns := map[int]int{}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return columns
		}
		if tok != token.STRING {
			continue
		}
		for i, part := range strings.Split(text, "\n") {
			n := file.Line(pos) + i
			columns[n] = max(columns[n], utf8.RuneCountInString(part))
		}
	}
}

func TestWideLinesAreFound(t *testing.T) {
	long := strings.Repeat("x", 141)
	for source, want := range map[string]int{
		"var a = 1\n":                                           0,
		"var " + long + " = 1\n":                                1,
		"// " + long + "\n":                                     1,
		"// https://" + long + "\n":                             0,
		"var a = \"" + long + "\"\n":                            0,
		"var a = `\n" + long + "`\n":                            0,
		"var " + long[:110] + " = \"" + long + "\"\n":           1,
		"var a, b = \"" + long[:70] + "\", " + long[:70] + "\n": 1,
	} {
		if got := wideLines([]byte("package p\n" + source)); len(got) != want {
			t.Errorf("wideLines(%q) = %q, want %d", source, got, want)
		}
	}
}
