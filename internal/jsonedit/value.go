package jsonedit

import (
	"bytes"
	"iter"
	"math"
	"strconv"
)

// Kind is what a JSON value is.
type Kind uint8

const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is a view of one valid JSON value; it copies nothing and lives as long as
// the bytes it was found in. The zero Value is null with nil Raw.
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

// ParseValue checks that b is one JSON value of any kind with nothing but white
// space around it, and returns a view of it. The rules are those of [Doc.Scan],
// but that keys may repeat; errors are [*SyntaxError].
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

// Kind returns what the value is.
func (v Value) Kind() Kind { return KindOf(v.raw) }

// KindOf returns the kind of the value that raw begins with, [Null] when raw is
// empty.
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

// Text returns the text of a string, unescaped. Half a surrogate pair becomes
// U+FFFD. It is false when the value is not a string.
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

// TextBytes is as Text, but returns a view into the document when the string has
// no escapes; it must not be changed.
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

// Int returns the value of a number that is written as an integer and fits. A
// fraction or an exponent make it false, whatever the value: 1.0 and 1e2 are not
// written as integers.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	digits := v.raw
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	n := int64(0) // counted downwards, for the least int64 has no positive
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

// Float returns the float64 nearest to a number; it is false for a number too
// large and for anything else.
func (v Value) Float() (float64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		return 0, false // not the infinity that it came close to
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

// Get returns the member of an object by name. Where a key stands more than once,
// the last counts, as for most readers.
func (v Value) Get(name string) (value Value, ok bool) {
	v.fields(func(k Key, field Value) bool {
		if k.Is(name) {
			value, ok = field, true
		}
		return true
	})
	return value, ok
}
