package jsonedit

import (
	"bytes"
	"iter"
)

const (
	inlineMembers = 16   // members stored without allocation, and searched linearly
	keptMembers   = 1024 // members up to which a document keeps its memory between scans
)

// MaxMembers is the maximum number of top-level members of a [Doc]: each takes many times
// the memory of its shortest text.
const MaxMembers = keptMembers

// Doc is one JSON object, scanned once. The zero value is usable and has no
// members. A Doc must not be copied after first use. It is safe for concurrent
// reading, except during Scan and Reset.
type Doc struct {
	b     []byte
	n     int // members
	few   [inlineMembers]member
	more  []member // members after the first few
	names []byte   // the unescaped text of keys with escapes
	index index    // of all members, if there are more than few
}

// member holds offsets: of the key with its quotes, of the value and, if
// nameEnd is not 0, of the unescaped key in names.
type member struct {
	key, keyEnd   int
	value, end    int
	name, nameEnd int
}

// Scan validates the complete document in one pass and records its top-level
// members. It retains b, which must not change, until the next call of Scan or
// Reset.
//
// The document must be an object as defined by RFC 8259, in valid UTF-8 without
// byte order mark, with at most [MaxMembers] members, nested at most [MaxDepth]
// deep, with only white space after it; otherwise the error is a [*SyntaxError]. A duplicate top-level key,
// compared after unescaping, is a [*DuplicateKeyError]. After an error the Doc
// is in the state after Reset.
func (d *Doc) Scan(b []byte) error {
	d.Reset()
	d.b = b
	if err := d.scan(); err != nil {
		d.Reset()
		return err
	}
	return nil
}

// Reset clears the document. Memory of usual size is kept for the next one.
func (d *Doc) Reset() {
	d.b, d.n = nil, 0
	d.more, d.names = d.more[:0], d.names[:0]
	if cap(d.more) > keptMembers {
		d.more, d.index = nil, index{}
	}
	if cap(d.names) > 16*keptMembers {
		d.names = nil
	}
}

// Bytes returns the document that was scanned.
func (d *Doc) Bytes() []byte { return d.b }

// Len returns the number of top-level members.
func (d *Doc) Len() int { return d.n }

// Members yields the top-level members in their order.
func (d *Doc) Members() iter.Seq2[Key, Value] {
	return func(yield func(Key, Value) bool) { d.each(yield) }
}

func (d *Doc) each(yield func(Key, Value) bool) {
	for i := range d.n {
		m := d.at(i)
		if !yield(Key{d.b[m.key:m.keyEnd]}, Value{d.b[m.value:m.end]}) {
			return
		}
	}
}

// Find returns the value of the top-level member of that name. Keys are
// compared after unescaping.
func (d *Doc) Find(name string) (Value, bool) {
	i := d.find(name)
	if i < 0 {
		return Value{}, false
	}
	m := d.at(i)
	return Value{d.b[m.value:m.end]}, true
}

func (d *Doc) find(name string) int {
	if d.n > inlineMembers {
		return d.index.find(d, name)
	}
	for i := range d.n {
		if string(d.name(&d.few[i])) == name {
			return i
		}
	}
	return -1
}

func (d *Doc) at(i int) *member {
	if i < inlineMembers {
		return &d.few[i]
	}
	return &d.more[i-inlineMembers]
}

// name returns the unescaped key of m.
func (d *Doc) name(m *member) []byte {
	if m.nameEnd > 0 {
		return d.names[m.name:m.nameEnd]
	}
	return d.b[m.key+1 : m.keyEnd-1]
}

func (d *Doc) scan() error {
	s := scanner{b: d.b}
	i := space(d.b, 0)
	if i >= len(d.b) || d.b[i] != '{' {
		s.fail(i, "expected an object")
		return s.error()
	}
	i = space(d.b, i+1)
	if i < len(d.b) && d.b[i] == '}' {
		i++
	} else {
		for more := true; more; {
			var err error
			if i, more, err = d.member(&s, i); err != nil {
				return err
			}
		}
	}
	if s.end(i) < 0 {
		return s.error()
	}
	return nil
}

// member reads the member that begins at i and the token after it. more is true
// if another member begins at next.
func (d *Doc) member(s *scanner, i int) (next int, more bool, err error) {
	m := member{key: i}
	if m.value = s.key(i); m.value < 0 {
		return 0, false, s.error()
	}
	m.keyEnd = bytes.LastIndexByte(d.b[i:m.value], '"') + i + 1
	if m.end = s.value(m.value, 1); m.end < 0 {
		return 0, false, s.error()
	}
	if !d.add(&m) {
		line, column := position(d.b, i)
		return 0, false, &DuplicateKeyError{Key: string(d.name(&m)), Offset: i, Line: line, Column: column}
	}
	if d.n > MaxMembers {
		s.fail(i, tooMany)
		return 0, false, s.error()
	}
	i = space(d.b, m.end)
	switch {
	case i < len(d.b) && d.b[i] == ',':
		return space(d.b, i+1), true, nil
	case i < len(d.b) && d.b[i] == '}':
		return i + 1, false, nil
	}
	s.fail(i, "expected ',' or '}' after a member")
	return 0, false, s.error()
}

// add unescapes the key of a member, records it, and reports whether its name
// is new.
func (d *Doc) add(m *member) bool {
	key := d.b[m.key+1 : m.keyEnd-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		m.name = len(d.names)
		d.names = appendUnescaped(d.names, key)
		m.nameEnd = len(d.names)
	}
	name := d.name(m)
	if d.n < inlineMembers {
		for i := range d.n {
			if bytes.Equal(d.name(&d.few[i]), name) {
				return false
			}
		}
		d.few[d.n] = *m
		d.n++
		return true
	}
	if d.n == inlineMembers {
		d.index.reset(d)
	}
	d.more = append(d.more, *m)
	d.n++
	return d.index.add(d, name, d.n-1)
}
