package jsonedit

import (
	"bytes"
	"iter"
)

const (
	inlineMembers = 16   // members held without allocation, and searched one by one
	keptMembers   = 1024 // members for which a document keeps its memory between scans
)

// Doc is one JSON object, scanned once. The zero value is ready for use and
// without members. A Doc must not be copied once used. Any number of readers may
// use it at the same time, but none during Scan and Reset.
type Doc struct {
	b     []byte
	n     int // members
	few   [inlineMembers]member
	more  []member // the members after few
	names []byte   // the unescaped text of keys that hold escapes
	index index    // of all members, when they are not few
}

// member holds offsets: of the key with its quotes, of the value, and of the
// unescaped key in names when nameEnd is not 0.
type member struct {
	key, keyEnd   int
	value, end    int
	name, nameEnd int
}

// Scan checks the whole document in one pass and remembers its top-level
// members. It retains b, which must not change, until the next Scan or Reset.
//
// The document must be an object as RFC 8259 has it, in valid UTF-8 without byte
// order mark, nested at most [MaxDepth] deep, with nothing but white space after
// it; else the error is a [*SyntaxError]. A top-level key that stands twice, as
// compared after unescaping, is a [*DuplicateKeyError]. After an error the Doc
// is as after Reset.
func (d *Doc) Scan(b []byte) error {
	d.Reset()
	d.b = b
	if err := d.scan(); err != nil {
		d.Reset()
		return err
	}
	return nil
}

// Reset forgets the document but keeps memory of usual size for the next.
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

// Bytes returns the document as given to Scan.
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

// Find returns the value of the top-level member of that name. A key with
// escapes has the name that they spell.
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

// name is the unescaped key of m.
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

// member takes the member that begins at i and what follows it, and reports
// where the next begins, if one must.
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

// add unescapes the key of a member, remembers it, and reports whether its name is new.
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
