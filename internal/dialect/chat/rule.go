package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// rule says what a value must be. Check takes the value from the cursor; after
// a fault the cursor may be anywhere.
type rule interface {
	check(c *cursor) *fault
	// expected completes the sentence "it must be …".
	expected() string
}

// kind is what a JSON value is, told by its first byte.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindArray
	kindObject
)

func kindOf(raw []byte) kind {
	if len(raw) == 0 {
		return kindNull
	}
	return kindFrom(raw[0])
}

func kindFrom(first byte) kind {
	switch first {
	case 'n', 0:
		return kindNull
	case 't', 'f':
		return kindBool
	case '"':
		return kindText
	case '[':
		return kindArray
	case '{':
		return kindObject
	}
	return kindNumber
}

// wrongType takes the value and refuses it for its kind.
func wrongType(c *cursor, want string) *fault {
	return &fault{code: codeType, want: want, sent: describe(c.raw())}
}

// number is a number within bounds, both included.
type number struct{ min, max float64 }

func (r number) expected() string { return fmt.Sprintf("a number from %g to %g", r.min, r.max) }

func (r number) check(c *cursor) *fault {
	if kindFrom(c.peek()) != kindNumber {
		return wrongType(c, r.expected())
	}
	raw := c.raw()
	if len(raw) == 1 { // one digit needs no parser
		if f := float64(raw[0] - '0'); f >= r.min && f <= r.max {
			return nil
		}
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err != nil || f < r.min || f > r.max {
		return &fault{code: codeValue, want: r.expected(), sent: describe(raw)}
	}
	return nil
}

// integer is a number written without fraction or exponent, within bounds, both
// included. Without bounds ([anyInteger]) it may have any length.
type integer struct{ min, max int64 }

var anyInteger = integer{math.MinInt64, math.MaxInt64}

func (r integer) expected() string {
	switch {
	case r == anyInteger:
		return "an integer"
	case r.max == math.MaxInt64:
		return fmt.Sprintf("an integer of at least %d", r.min)
	}
	return fmt.Sprintf("an integer from %d to %d", r.min, r.max)
}

func (r integer) check(c *cursor) *fault {
	if kindFrom(c.peek()) != kindNumber {
		return wrongType(c, r.expected())
	}
	raw := c.raw()
	if !isInteger(raw) {
		return &fault{code: codeType, want: r.expected(), sent: describe(raw)}
	}
	if r == anyInteger {
		return nil
	}
	// Of a number beyond int64 this is the nearest that fits.
	if n, _ := strconv.ParseInt(string(raw), 10, 64); n < r.min || n > r.max {
		return &fault{code: codeValue, want: r.expected(), sent: describe(raw)}
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

// boolean is true or false.
type boolean struct{}

func (boolean) expected() string { return "true or false" }

func (r boolean) check(c *cursor) *fault {
	if kindFrom(c.peek()) != kindBool {
		return wrongType(c, r.expected())
	}
	c.skip()
	return nil
}

// text is a string. A bound of zero is none.
type text struct {
	notEmpty bool
	chars    int // at most so many Unicode characters
	bytes    int // at most so many bytes of UTF-8
	why      string
}

func (r text) expected() string {
	switch {
	case r.chars > 0:
		return fmt.Sprintf("a string of at most %d characters%s", r.chars, r.why)
	case r.bytes > 0:
		return fmt.Sprintf("a string of at most %d bytes%s", r.bytes, r.why)
	case r.notEmpty:
		return "a string that is not empty"
	}
	return "a string"
}

func (r text) check(c *cursor) *fault {
	if c.peek() != '"' {
		return wrongType(c, r.expected())
	}
	raw := c.text()
	switch {
	case r.notEmpty && len(raw) == 0:
		return &fault{code: codeValue, want: text{notEmpty: true}.expected(), sent: "an empty one"}
	case r.chars > 0 && len(raw) > r.chars:
		if n, _ := measure(raw); n > r.chars {
			return &fault{code: codeValue, want: r.expected(), sent: fmt.Sprintf("of %d", n)}
		}
	case r.bytes > 0 && len(raw) > r.bytes:
		if _, n := measure(raw); n > r.bytes {
			return &fault{code: codeValue, want: r.expected(), sent: fmt.Sprintf("of %d", n)}
		}
	}
	return nil
}

// words is one of a few strings.
type words []string

func (r words) expected() string {
	if len(r) == 1 {
		return strconv.Quote(r[0])
	}
	var b strings.Builder
	b.WriteString("one of ")
	for i, w := range r {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(w))
	}
	return b.String()
}

func (r words) check(c *cursor) *fault {
	if c.peek() != '"' {
		return wrongType(c, r.expected())
	}
	raw := c.raw()
	for _, w := range r {
		if string(raw[1:len(raw)-1]) == w {
			return nil
		}
	}
	return &fault{code: codeValue, want: r.expected(), sent: describeWord(raw)}
}

// list is an array with bounds on its length; a max of zero is none, an each of
// nil takes any elements.
type list struct {
	min, max int
	each     rule
	what     string // the elements, in the plural
}

func (r list) expected() string {
	switch {
	case r.min > 0 && r.max > 0:
		return fmt.Sprintf("an array of %d to %d %s", r.min, r.max, r.what)
	case r.max > 0:
		return fmt.Sprintf("an array of at most %d %s", r.max, r.what)
	case r.min > 0:
		return fmt.Sprintf("an array of %d or more %s", r.min, r.what)
	}
	return "an array of " + r.what
}

func (r list) check(c *cursor) *fault {
	if !c.enter('[') {
		return wrongType(c, r.expected())
	}
	n := 0
	for ; c.element(); n++ {
		if r.each == nil || r.max > 0 && n >= r.max {
			c.skip()
			continue
		}
		if f := r.each.check(c); f != nil {
			return f.at(n)
		}
	}
	if n < r.min || r.max > 0 && n > r.max {
		return &fault{code: codeValue, want: r.expected(), sent: fmt.Sprintf("one of %d", n)}
	}
	return nil
}

// table is an object whose every member follows one rule.
type table struct {
	each rule
	what string
}

func (r table) expected() string { return r.what }

func (r table) check(c *cursor) *fault {
	if !c.enter('{') {
		return wrongType(c, r.expected())
	}
	for key, ok := c.field(); ok; key, ok = c.field() {
		if f := r.each.check(c); f != nil {
			return f.in(shorten(key))
		}
	}
	return nil
}

// shorten keeps a client's own key from filling a message.
func shorten(key []byte) string {
	if len(key) > maxShown {
		return strings.ToValidUTF8(string(key[:maxShown]), "") + "…"
	}
	return string(key)
}

// object is an object with rules for some of its members. Others pass.
type object struct {
	members []param
	what    string // "an object" when empty
}

func (r object) expected() string {
	if r.what == "" {
		return "an object"
	}
	return r.what
}

func (r object) check(c *cursor) *fault {
	if !c.enter('{') {
		return wrongType(c, r.expected())
	}
	var seen uint64
	for key, ok := c.field(); ok; key, ok = c.field() {
		i := find(r.members, key)
		if i < 0 {
			c.skip()
			continue
		}
		seen |= 1 << i
		if f := r.members[i].check(c); f != nil {
			return f
		}
		if seen == 1<<len(r.members)-1 { // nothing more to look for
			c.leave()
			return nil
		}
	}
	return missing(r.members, seen)
}

// byKind has a rule for each kind of value; nil refuses the kind.
type byKind struct {
	text, array, object rule
	what                string
}

func (r byKind) expected() string { return r.what }

func (r byKind) check(c *cursor) *fault {
	var of rule
	switch kindFrom(c.peek()) {
	case kindText:
		of = r.text
	case kindArray:
		of = r.array
	case kindObject:
		of = r.object
	}
	if of == nil {
		return wrongType(c, r.expected())
	}
	return of.check(c)
}

// nullOnly refuses every value but null.
type nullOnly struct{ why string }

func (r nullOnly) expected() string { return "left out" + r.why }

func (r nullOnly) check(c *cursor) *fault {
	return &fault{code: codeValue, want: r.expected(), sent: describeWord(c.raw())}
}
