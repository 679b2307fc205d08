package grammar

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Any is a rule that allows every value except null.
type Any struct{}

// Expected completes the sentence "it must be …".
func (Any) Expected() string { return "a value" }

// Check implements [Rule].
func (Any) Check(c *jsonedit.Cursor) *Fault {
	c.Skip()
	return nil
}

// Func is a rule that other types cannot express. It returns a fault whose path
// begins at the value.
type Func func(v jsonedit.Value) *Fault

// Expected returns an empty string: a required member with such a rule sets
// Send.
func (Func) Expected() string { return "" }

// Check implements [Rule].
func (r Func) Check(c *jsonedit.Cursor) *Fault { return r(c.Value()) }

// Number is a number within bounds, including both.
type Number struct {
	Min, Max float64
	// Kind, if not empty, is the problem of other kinds, and of a number that
	// is too large.
	Kind string
	// Bound, if not empty, is the problem of a number that is out of bounds.
	Bound string
}

// Expected completes the sentence "it must be …".
func (r Number) Expected() string { return fmt.Sprintf("a number from %g to %g", r.Min, r.Max) }

// Check implements [Rule].
func (r Number) Check(c *jsonedit.Cursor) *Fault {
	if c.Kind() != jsonedit.Number {
		return WrongType(cmp.Or(r.Kind, r.Expected()), c.Raw())
	}
	raw := c.Raw()
	if len(raw) == 1 { // one digit needs no parser
		if f := float64(raw[0] - '0'); f >= r.Min && f <= r.Max {
			return nil
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil && r.Kind != "":
		return WrongType(r.Kind, raw)
	case err != nil || f < r.Min || f > r.Max:
		return outOfBounds(r.Bound, r, raw)
	}
	return nil
}

// outOfBounds returns the fault of a number. The number is not repeated if the
// rule has a message for its bound.
func outOfBounds(bound string, r Rule, raw []byte) *Fault {
	if bound != "" {
		return &Fault{Code: CodeValue, Want: bound}
	}
	return &Fault{Code: CodeValue, Want: r.Expected(), Sent: Describe(raw)}
}

// Integer is a number written without fraction or exponent, within bounds,
// including both. Without bounds ([AnyInteger]) it may have any length.
type Integer struct {
	Min, Max int64
	// Kind, if not empty, is the problem of other kinds, and of an integer
	// beyond int64.
	Kind string
	// Bound, if not empty, is the problem of an integer that is out of bounds.
	Bound string
}

// AnyInteger is an integer without bounds.
var AnyInteger = Integer{Min: math.MinInt64, Max: math.MaxInt64}

// Expected completes the sentence "it must be …".
func (r Integer) Expected() string {
	switch {
	case r == AnyInteger:
		return "an integer"
	case r.Max > 1<<53: // beyond it float64 is inexact; not a bound to mention
		return fmt.Sprintf("an integer of at least %d", r.Min)
	}
	return fmt.Sprintf("an integer from %d to %d", r.Min, r.Max)
}

// Check implements [Rule].
func (r Integer) Check(c *jsonedit.Cursor) *Fault {
	kind := c.Kind()
	raw := c.Raw()
	if kind != jsonedit.Number || !isInteger(raw) {
		return WrongType(cmp.Or(r.Kind, r.Expected()), raw)
	}
	if r == AnyInteger {
		return nil
	}
	// For a number beyond int64 this is the nearest int64.
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err != nil && r.Kind != "":
		return WrongType(r.Kind, raw)
	case n < r.Min || n > r.Max:
		return outOfBounds(r.Bound, r, raw)
	}
	return nil
}

// isInteger reports whether a valid JSON number has neither fraction nor
// exponent.
func isInteger(raw []byte) bool {
	for i, ch := range raw {
		if ch-'0' > 9 && (i > 0 || ch != '-') {
			return false
		}
	}
	return true
}

// Bool is true or false.
type Bool struct{}

// Expected completes the sentence "it must be …".
func (Bool) Expected() string { return "true or false" }

// Check implements [Rule].
func (r Bool) Check(c *jsonedit.Cursor) *Fault {
	if c.Kind() != jsonedit.Bool {
		return WrongType(r.Expected(), c.Raw())
	}
	c.Skip()
	return nil
}

// Text is a string. A zero limit means none.
type Text struct {
	NotEmpty bool
	Chars    int    // at most this many Unicode characters
	Bytes    int    // at most this many bytes of UTF-8
	Why      string // end of the sentence about the limit
}

// Expected completes the sentence "it must be …".
func (r Text) Expected() string {
	switch {
	case r.Chars > 0:
		return fmt.Sprintf("a string of at most %d characters%s", r.Chars, r.Why)
	case r.Bytes > 0:
		return fmt.Sprintf("a string of at most %d bytes%s", r.Bytes, r.Why)
	case r.NotEmpty:
		return "a string that is not empty"
	}
	return "a string"
}

// Check implements [Rule].
func (r Text) Check(c *jsonedit.Cursor) *Fault {
	if c.Kind() != jsonedit.String {
		return WrongType(r.Expected(), c.Raw())
	}
	raw := c.Text()
	switch {
	case r.NotEmpty && len(raw) == 0:
		return &Fault{Code: CodeValue, Want: Text{NotEmpty: true}.Expected(), Sent: "an empty one"}
	case r.Chars > 0 && len(raw) > r.Chars:
		if n, _ := measure(raw); n > r.Chars {
			return &Fault{Code: CodeValue, Want: r.Expected(), Sent: fmt.Sprintf("of %d", n)}
		}
	case r.Bytes > 0 && len(raw) > r.Bytes:
		if _, n := measure(raw); n > r.Bytes {
			return &Fault{Code: CodeValue, Want: r.Expected(), Sent: fmt.Sprintf("of %d", n)}
		}
	}
	return nil
}

// Words is one of a few strings.
type Words []string

// Expected completes the sentence "it must be …".
func (r Words) Expected() string {
	if len(r) == 1 {
		return strconv.Quote(r[0])
	}
	return `one of "` + strings.Join(r, `", "`) + `"`
}

// Check implements [Rule].
func (r Words) Check(c *jsonedit.Cursor) *Fault {
	if c.Kind() != jsonedit.String {
		return WrongType(r.Expected(), c.Raw())
	}
	raw := c.Raw()
	if slices.Contains(r, string(raw[1:len(raw)-1])) {
		return nil
	}
	return &Fault{Code: CodeValue, Want: r.Expected(), Sent: DescribeWord(raw)}
}

// NullOnly rejects every value except null.
type NullOnly struct{ Why string }

// Expected completes the sentence "it must be …".
func (r NullOnly) Expected() string { return "left out" + r.Why }

// Check implements [Rule].
func (r NullOnly) Check(c *jsonedit.Cursor) *Fault {
	return &Fault{Code: CodeValue, Want: r.Expected(), Sent: DescribeWord(c.Raw())}
}
