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
