package grammar

import (
	"sync"

	"modelgate/internal/format/jsonedit"
)

// Body describes a request body of an operation. Only [NewBody] makes one.
type Body struct {
	// Spell, if not nil, returns the member name for a key as received.
	Spell func(key []byte) []byte

	members   []Member
	byLen     [maxName + 1][]int8 // indexes into members of the names of each length
	relations []Relation
}

const maxName = 31 // bytes of the longest name of a member

// NewBody returns a body with up to 64 members. Relations are checked after all
// members have been checked.
func NewBody(members []Member, relations ...Relation) *Body {
	b := &Body{members: members, relations: relations}
	for i, m := range members {
		b.byLen[len(m.Name)] = append(b.byLen[len(m.Name)], int8(i))
	}
	return b
}

// Relation is a rule between a member that is sent and not null, and others.
type Relation struct {
	Of string
	// Check returns a fault without path and code.
	Check func(of jsonedit.Value, d *jsonedit.Doc) *Fault
}

// Check returns the first fault of a document: the first member that breaks its
// rule, otherwise the first missing member, otherwise the first relation.
func (b *Body) Check(d *jsonedit.Doc) *Fault { return b.with(d, b.check) }

// CheckInOrder does the same as Check, but in the order of the table.
func (b *Body) CheckInOrder(d *jsonedit.Doc) *Fault { return b.with(d, b.checkInOrder) }

// cursors holds cursors for reuse: a cursor behind an interface cannot be on
// the stack, and every request needs one.
var cursors = sync.Pool{New: func() any { return new(jsonedit.Cursor) }}

func (b *Body) with(d *jsonedit.Doc, check func(*jsonedit.Cursor, *jsonedit.Doc) *Fault) *Fault {
	c := cursors.Get().(*jsonedit.Cursor)
	f := check(c, d)
	c.Reset(nil)
	cursors.Put(c)
	for i := 0; f == nil && i < len(b.relations); i++ {
		f = b.relations[i].check(d)
	}
	return f
}

func (b *Body) check(c *jsonedit.Cursor, d *jsonedit.Doc) *Fault {
	var seen uint64
	for key, v := range d.Members() {
		raw := key.Raw()
		sent := jsonedit.Unescape(raw[1 : len(raw)-1])
		i := b.find(sent)
		if i < 0 {
			continue
		}
		seen |= 1 << i
		c.Reset(v.Raw())
		if f := b.members[i].check(c); f != nil {
			return f.In(string(sent))
		}
	}
	return missing(b.members, seen)
}

func (b *Body) checkInOrder(c *jsonedit.Cursor, d *jsonedit.Doc) *Fault {
	for i := range b.members {
		m := &b.members[i]
		v, _ := d.Find(m.Name)
		c.Reset(v.Raw())
		if f := m.check(c); f != nil {
			return f.In(m.Name)
		}
	}
	return nil
}

// find returns the index of the member that a key names, or -1.
func (b *Body) find(name []byte) int {
	if b.Spell != nil {
		name = b.Spell(name)
	}
	if len(name) > maxName {
		return -1
	}
	for _, i := range b.byLen[len(name)] {
		if b.members[i].Name == string(name) {
			return int(i)
		}
	}
	return -1
}

func (r Relation) check(d *jsonedit.Doc) *Fault {
	v, ok := d.Find(r.Of)
	if !ok || v.IsNull() {
		return nil
	}
	f := r.Check(v, d)
	if f != nil {
		f.Path, f.Code = r.Of, CodeValue
	}
	return f
}
