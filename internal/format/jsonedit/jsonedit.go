// Package jsonedit reads and edits a JSON document without decoding it.
//
// It guarantees that a scanned document is valid (RFC 8259, in UTF-8, at most
// [MaxDepth] deep, no duplicate key at the top level) and that an edit leaves
// every byte outside the edited member unchanged: order, spacing, the spelling
// of numbers and escapes, and unknown members. Scanning takes one pass and does
// not allocate in steady state.
//
// It does not interpret members, or convert to Go types other than strings,
// numbers and booleans.
package jsonedit

import (
	"bytes"
	"fmt"
)

// MaxDepth is the maximum nesting of arrays and objects.
const MaxDepth = 512

// SyntaxError describes where and why bytes are not a valid document.
type SyntaxError struct {
	Offset  int // of the offending byte, from 0
	Line    int // from 1
	Column  int // from 1, in bytes
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// DuplicateKeyError reports a duplicate key at the top level of a document.
// Parsers disagree on which of the two wins, so the document is rejected.
type DuplicateKeyError struct {
	Key    string // unescaped
	Offset int    // of the second occurrence, from 0
	Line   int    // from 1
	Column int    // from 1, in bytes
}

func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("line %d, column %d: the key %q is duplicated; send it once", e.Line, e.Column, e.Key)
}

// position returns the line and column of an offset in b.
func position(b []byte, offset int) (line, column int) {
	before := b[:offset]
	return 1 + bytes.Count(before, []byte{'\n'}), offset - bytes.LastIndexByte(before, '\n')
}
