package config

import (
	"bytes"
	"encoding/json"
)

// Object is a free-form JSON object: members in order, each value as its source
// text. Nil means that the object is not set.
type Object []Member

// Member is one member of an Object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Get returns the value of a member.
func (o Object) Get(name string) (json.RawMessage, bool) {
	for _, m := range o {
		if m.Name == name {
			return m.Value, true
		}
	}
	return nil, false
}

// Text returns the value of a member that is a string.
func (o Object) Text(name string) (string, bool) {
	raw, ok := o.Get(name)
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// Merge returns o with the members of over added. Members of over replace those
// of o and are not merged with them. Neither object is changed; the result is
// nil if both are.
func (o Object) Merge(over Object) Object {
	if over == nil {
		return o
	}
	merged := make(Object, 0, len(o)+len(over))
	for _, m := range o {
		if _, replaced := over.Get(m.Name); !replaced {
			merged = append(merged, m)
		}
	}
	return append(merged, over...)
}

// MarshalJSON writes the object in its order.
func (o Object) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		writeText(&b, m.Name)
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
