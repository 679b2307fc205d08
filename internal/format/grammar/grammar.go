// Package grammar describes valid JSON request bodies as data.
//
// A [Rule] is a requirement for one value; a [Body] is the table of an
// operation's members and the relations between them. Checking stops at the
// first [Fault], which has the path of the element, a code, and a sentence
// about what it must be and what was sent. It guarantees that checking a valid
// body does not allocate and that messages contain no content except short
// numbers, literals and words.
//
// Text must be valid JSON (see jsonedit). Members that a table does not list
// pass.
package grammar

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// Rule is a requirement for a value.
type Rule interface {
	// Check reads the next value of the cursor and returns what is wrong with it,
	// or nil. After a fault the cursor may be anywhere.
	Check(c *jsonedit.Cursor) *Fault
	// Expected completes the sentence "it must be …".
	Expected() string
}

// Codes of faults.
const (
	CodeMissing = "missing_required_parameter"
	CodeType    = "invalid_type"
	CodeValue   = "invalid_value"
)

// Fault is the reason why a value is invalid. It is made where the value is
// read; callers extend its path.
type Fault struct {
	Path string // from the rule that made it; empty for the value itself
	Code string
	Want string // what follows "must be", or "send" if the value is missing
	Sent string // what follows "not"; empty if there is nothing to say
	// Problem, if not empty, follows the path instead of Want and Sent.
	Problem string
}

// In prepends the name of a member to the path.
func (f *Fault) In(name string) *Fault {
	switch {
	case f.Path == "":
		f.Path = name
	case f.Path[0] == '[':
		f.Path = name + f.Path
	default:
		f.Path = name + "." + f.Path
	}
	return f
}

// WithoutSent returns f without what was sent.
func (f *Fault) WithoutSent() *Fault {
	if f != nil {
		f.Sent = ""
	}
	return f
}

// At prepends the index of an element to the path.
func (f *Fault) At(i int) *Fault { return f.In("[" + strconv.Itoa(i) + "]") }

// Error returns the error for the client, nil if f is nil. The separator is
// between the path and the sentence.
func (f *Fault) Error(separator string) *apierr.Error {
	if f == nil {
		return nil
	}
	return apierr.New(apierr.Invalid, "%s", f.Path+separator+f.sentence()).WithParam(f.Path).WithCode(f.Code)
}

func (f *Fault) sentence() string {
	switch {
	case f.Problem != "":
		return f.Problem
	case f.Code == CodeMissing:
		return "is required: send " + f.Want
	case f.Sent == "":
		return "must be " + f.Want
	}
	return "must be " + f.Want + ", not " + f.Sent
}

const maxShown = 32 // bytes of a value that a message repeats

// Describe returns a description of raw for a message. Short numbers and
// literals are repeated; for anything that may be content only the kind is
// named.
func Describe(raw []byte) string {
	switch jsonedit.KindOf(raw) {
	case jsonedit.String:
		return "a string"
	case jsonedit.Array:
		return "an array"
	case jsonedit.Object:
		return "an object"
	case jsonedit.Null:
		return "null"
	}
	if len(raw) > maxShown {
		return "a number of " + strconv.Itoa(len(raw)) + " characters"
	}
	return string(raw)
}

// DescribeWord does the same as Describe for a value that should be one of few
// words: a short string is repeated.
func DescribeWord(raw []byte) string {
	if jsonedit.KindOf(raw) == jsonedit.String && len(raw) <= maxShown+2 && utf8.Valid(raw) {
		return string(raw)
	}
	return Describe(raw)
}

// WrongType returns the fault of a value that is of another kind than wanted.
func WrongType(want string, raw []byte) *Fault {
	return &Fault{Code: CodeType, Want: want, Sent: Describe(raw)}
}

// shorten limits the length of a client's own key in a message.
func shorten(key []byte) string {
	if len(key) > maxShown {
		return strings.ToValidUTF8(string(key[:maxShown]), "") + "…"
	}
	return string(key)
}
