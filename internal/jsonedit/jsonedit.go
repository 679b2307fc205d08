// Package jsonedit reads and edits a JSON document without decoding it.
//
// It promises that a scanned document is valid as a whole (RFC 8259, in UTF-8,
// at most [MaxDepth] deep, no repeated key at the top level) and that an edit
// leaves every byte outside the edited member as it was: order, spacing, the
// spelling of numbers and escapes survive, unknown members too. Scanning is one
// pass and allocates nothing in steady state.
//
// It leaves to others what the members mean, and conversion to Go types beyond
// text, numbers and booleans.
package jsonedit

import (
	"bytes"
	"fmt"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 512

// SyntaxError says where and why bytes are not a JSON document that this package
// takes.
type SyntaxError struct {
	Offset  int // of the offending byte, from 0
	Line    int // from 1
	Column  int // from 1, in bytes
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// DuplicateKeyError says that a key stands twice at the top level of a document.
// Readers disagree on which of the two counts, so neither does.
type DuplicateKeyError struct {
	Key    string // unescaped
	Offset int    // of the second, from 0
	Line   int    // from 1
	Column int    // from 1, in bytes
}

func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("line %d, column %d: the key %q stands twice, send it once", e.Line, e.Column, e.Key)
}

// position returns line and column of an offset in b.
func position(b []byte, offset int) (line, column int) {
	before := b[:offset]
	return 1 + bytes.Count(before, []byte{'\n'}), offset - bytes.LastIndexByte(before, '\n')
}
