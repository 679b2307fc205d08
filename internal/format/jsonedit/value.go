package jsonedit

import (
	"bytes"
	"iter"
	"math"
	"strconv"
)

// Kind is the type of a JSON value.
type Kind uint8

const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is a view of one valid JSON value. It copies nothing and is valid as
// long as the underlying bytes are. The zero Value is null with nil Raw.
type Value struct{ raw []byte }

// Key is a view of a member's key.
type Key struct{ raw []byte }

// Raw returns the key as it is in the document, with its quotes.
func (k Key) Raw() []byte { return k.raw }

// Is reports whether the key, unescaped, is name. It does not allocate.
func (k Key) Is(name string) bool {
	text := k.raw[1 : len(k.raw)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text) == name
	}
	return unescapesTo(text, name)
}

// String returns the key unescaped.
func (k Key) String() string {
	s, _ := Value(k).Text()
	return s
}

// ParseValue validates that b is one JSON value of any kind with surrounding
// white space, and returns a view of it. The rules are those of [Doc.Scan],
// except that keys may be duplicate; errors are [*SyntaxError].
func ParseValue(b []byte) (Value, error) {
	s := scanner{b: b}
	from, to := s.document()
	if to < 0 {
		return Value{}, s.error()
	}
	return Value{b[from:to]}, nil
}

// Raw returns the value as it is in the document, without the white space
// around it.
func (v Value) Raw() []byte { return v.raw }

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return KindOf(v.raw) }

// KindOf returns the kind of the value that raw begins with, or [Null] if raw
// is empty.
func KindOf(raw []byte) Kind {
	if len(raw) == 0 {
		return Null
	}
	return kindFrom(raw[0])
}

func kindFrom(first byte) Kind {
	switch first {
	case 'n', 0:
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '[':
		return Array
	case '{':
		return Object
	}
	return Number
}

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.Kind() == Null }

// Text returns the unescaped text of a string. Half a surrogate pair becomes
// U+FFFD. ok is false if the value is not a string.
func (v Value) Text() (string, bool) {
	if v.Kind() != String {
		return "", false
	}
	text := v.raw[1 : len(v.raw)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text), true
	}
	return unescape(text), true
}

// IsText reports whether the value is a string with this text.
func (v Value) IsText(want string) bool {
	s, ok := v.Text()
	return ok && s == want
}

// TextBytes returns the same as Text, as a view of the document if the string
// has no escapes; it must not be changed.
func (v Value) TextBytes() ([]byte, bool) {
	if v.Kind() != String {
		return nil, false
	}
	text := v.raw[1 : len(v.raw)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return text[:len(text):len(text)], true
	}
	return unescaped(text), true
}

// Bool returns the value of true and false; ok is false for anything else.
func (v Value) Bool() (value, ok bool) {
	return v.Kind() == Bool && v.raw[0] == 't', v.Kind() == Bool
}

// Int returns the value of a number that is written as an integer and fits. It
// returns false for a number with a fraction or an exponent, such as 1.0 and
// 1e2.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	digits := v.raw
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	n := int64(0) // counts downwards, since the least int64 has no positive counterpart
	for _, c := range digits {
		digit := int64(c - '0')
		if c-'0' > 9 || n < (math.MinInt64+digit)/10 {
			return 0, false
		}
		n = n*10 - digit
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// Float returns the nearest float64 of a number. It returns false for a number
// that is too large, and for other values.
func (v Value) Float() (float64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		return 0, false // not infinity
	}
	return f, true
}

// Elements yields the elements of an array in their order, and nothing for any
// other value.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) { v.elements(yield) }
}

func (v Value) elements(yield func(Value) bool) {
	if v.Kind() != Array {
		return
	}
	b := v.raw
	for i := space(b, 1); b[i] != ']'; i = comma(b, i) {
		from := i
		i = skip(b, i)
		if !yield(Value{b[from:i]}) {
			return
		}
	}
}

// Fields yields the members of an object in their order, repeated keys too, and
// nothing for any other value.
func (v Value) Fields() iter.Seq2[Key, Value] {
	return func(yield func(Key, Value) bool) { v.fields(yield) }
}

func (v Value) fields(yield func(Key, Value) bool) {
	if v.Kind() != Object {
		return
	}
	b := v.raw
	for i := space(b, 1); b[i] != '}'; i = comma(b, i) {
		keyEnd := skipString(b, i+1)
		from := colon(b, keyEnd)
		key := Key{b[i:keyEnd]}
		i = skip(b, from)
		if !yield(key, Value{b[from:i]}) {
			return
		}
	}
}

// Get returns the member of an object by name. The last of several members with
// a key wins, as in most parsers.
func (v Value) Get(name string) (value Value, ok bool) {
	v.fields(func(k Key, field Value) bool {
		if k.Is(name) {
			value, ok = field, true
		}
		return true
	})
	return value, ok
}

// TextOf returns the string that a member of an object is, empty if it is none.
func (v Value) TextOf(name string) string {
	member, _ := v.Get(name)
	s, _ := member.Text()
	return s
}

// ReplaceLast returns a list with another last element.
func (v Value) ReplaceLast(with []byte) []byte {
	n := 0
	for range v.Elements() {
		n++
	}
	return v.ReplaceElement(n-1, with)
}

// ReplaceElement returns a list with another element at an index.
func (v Value) ReplaceElement(at int, with []byte) []byte {
	out := append(make([]byte, 0, len(v.raw)+len(with)), '[')
	i := 0
	for e := range v.Elements() {
		if i > 0 {
			out = append(out, ',')
		}
		raw := e.Raw()
		if i == at {
			raw = with
		}
		out = append(out, raw...)
		i++
	}
	return append(out, ']')
}
