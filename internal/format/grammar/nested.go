package grammar

import (
	"fmt"

	"modelgate/internal/format/jsonedit"
)

// List is an array with limits on its length; a Max of zero means no limit, a
// nil Each allows any elements.
type List struct {
	Min, Max int
	Each     Rule
	What     string // plural noun for the elements
	Empty    string // problem of an empty array; empty if that is valid
}

// Expected completes the sentence "it must be …".
func (r List) Expected() string {
	switch {
	case r.Min > 0 && r.Max > 0:
		return fmt.Sprintf("an array of %d to %d %s", r.Min, r.Max, r.What)
	case r.Max > 0:
		return fmt.Sprintf("an array of at most %d %s", r.Max, r.What)
	case r.Min > 0:
		return fmt.Sprintf("an array of %d or more %s", r.Min, r.What)
	case r.What == "":
		return "an array"
	}
	return "an array of " + r.What
}

// Check implements [Rule].
func (r List) Check(c *jsonedit.Cursor) *Fault {
	if !c.Enter('[') {
		return WrongType(r.Expected(), c.Raw())
	}
	n := 0
	for ; c.Element(); n++ {
		if r.Each == nil || r.Max > 0 && n >= r.Max {
			c.Skip()
			continue
		}
		if f := r.Each.Check(c); f != nil {
			return f.At(n)
		}
	}
	if n == 0 && r.Empty != "" {
		return &Fault{Code: CodeValue, Problem: r.Empty}
	}
	if n < r.Min || r.Max > 0 && n > r.Max {
		return &Fault{Code: CodeValue, Want: r.Expected(), Sent: fmt.Sprintf("one of %d", n)}
	}
	return nil
}

// Map is an object whose members all follow one rule.
type Map struct {
	Each Rule
	What string
}

// Expected completes the sentence "it must be …".
func (r Map) Expected() string { return r.What }

// Check implements [Rule].
func (r Map) Check(c *jsonedit.Cursor) *Fault {
	if !c.Enter('{') {
		return WrongType(r.Expected(), c.Raw())
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		if f := r.Each.Check(c); f != nil {
			return f.In(shorten(key))
		}
	}
	return nil
}

// Object is an object with rules for some of its members, 64 at most. Others pass.
type Object struct {
	Members []Member
	What    string // "an object" if empty
	// Spell, if not nil, returns the name that a key as it was sent stands for.
	Spell func(key []byte) []byte
}

// Expected completes the sentence "it must be …".
func (r Object) Expected() string {
	if r.What == "" {
		return "an object"
	}
	return r.What
}

// Check implements [Rule].
func (r Object) Check(c *jsonedit.Cursor) *Fault {
	if !c.Enter('{') {
		return WrongType(r.Expected(), c.Raw())
	}
	var seen uint64
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		name := jsonedit.Unescape(key)
		if r.Spell != nil {
			name = r.Spell(name)
		}
		i := find(r.Members, name)
		if i < 0 {
			c.Skip()
			continue
		}
		seen |= 1 << i
		if f := r.Members[i].check(c); f != nil {
			return f.In(string(jsonedit.Unescape(key)))
		}
		if seen == 1<<len(r.Members)-1 && r.Spell == nil { // all members have been found
			c.Leave()
			return nil
		}
	}
	return missing(r.Members, seen)
}

// ByKind has a rule for each kind of value; a nil rule rejects the kind.
type ByKind struct {
	Text, Number, Array, Object Rule
	What                        string
}

// Expected completes the sentence "it must be …".
func (r ByKind) Expected() string { return r.What }

// Check implements [Rule].
func (r ByKind) Check(c *jsonedit.Cursor) *Fault {
	var of Rule
	switch c.Kind() {
	case jsonedit.String:
		of = r.Text
	case jsonedit.Number:
		of = r.Number
	case jsonedit.Array:
		of = r.Array
	case jsonedit.Object:
		of = r.Object
	}
	if of == nil {
		return WrongType(r.Expected(), c.Raw())
	}
	return of.Check(c)
}

// Member is a member of an object by name.
type Member struct {
	Name     string
	Rule     Rule
	Required bool
	// Nullable allows null for a required member. A member that is not required
	// may always be null: official clients send null for parameters that are
	// not set.
	Nullable bool
	// Send, if not empty, replaces what the rule expects in the message for a
	// missing member.
	Send string
}

// check returns a fault whose path begins at the value.
func (m *Member) check(c *jsonedit.Cursor) *Fault {
	if c.Kind() == jsonedit.Null {
		c.Skip()
		if m.Required && !m.Nullable {
			return m.missing()
		}
		return nil
	}
	return m.Rule.Check(c)
}

func (m *Member) missing() *Fault {
	if m.Send != "" {
		return &Fault{Code: CodeMissing, Want: m.Send}
	}
	return &Fault{Code: CodeMissing, Want: m.Rule.Expected()}
}

// find returns the index of the member of that name, or -1.
func find(members []Member, name []byte) int {
	for i := range members {
		if members[i].Name == string(name) {
			return i
		}
	}
	return -1
}

// missing returns a fault for the first required member that was not found;
// seen has a bit for every member found.
func missing(members []Member, seen uint64) *Fault {
	for i := range members {
		if m := &members[i]; m.Required && seen&(1<<i) == 0 {
			return m.missing().In(m.Name)
		}
	}
	return nil
}
