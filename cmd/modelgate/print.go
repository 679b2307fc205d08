package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// printLine prints a line that may contain anyone's text, which can neither control the
// terminal nor look like further lines.
func (p *program) printLine(format string, values ...any) {
	fmt.Fprintln(p.out, stripControl(fmt.Sprintf(format, values...)))
}

// printCells prints a row of a table in the same way.
func printCells(w io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = stripControl(c)
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// stripLines returns s with control characters replaced except for line breaks and tabs.
func stripLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, s)
}

// stripControl returns s with control characters replaced.
func stripControl(s string) string { return strings.Map(printable, s) }

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '\uFFFD'
}

// counted returns a number with its noun, such as 1 file or 2 entries. Nouns in y end in ry.
func counted[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		noun = stem + "rie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
