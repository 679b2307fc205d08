package scim

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxMembers is the limit of members in a request.
const maxMembers = 100_000

// MemberChange changes the members of a group.
type MemberChange struct {
	Op  string   // Add, Replace or Remove
	All bool     // with Remove: all members
	IDs []string // of users, each once
}

// DecodeGroup is [Type.Decode] for groups: members are returned apart, because a group may have
// tens of thousands. Given is false if the request does not mention them.
func (t *Type) DecodeGroup(body []byte) (attributes Object, members []string, given bool, err error) {
	var all Object
	if err := json.Unmarshal(body, &all); err != nil || all == nil {
		return nil, nil, false, Errorf(InvalidSyntax, "the body must be a JSON object")
	}
	for name, v := range all {
		if !strings.EqualFold(name, "members") {
			continue
		}
		if given {
			return nil, nil, false, Errorf(InvalidSyntax, "the attribute members is duplicated")
		}
		delete(all, name)
		if given = true; v == nil {
			continue
		}
		if members, err = memberIDs(v); err != nil {
			return nil, nil, false, err
		}
	}
	if err := checkNames(all, 0); err != nil {
		return nil, nil, false, err
	}
	if err := t.checkSchemas(all); err != nil {
		return nil, nil, false, err
	}
	attributes, err = t.normalise(all)
	return attributes, members, given, err
}

// memberIDs returns the ids in the value of members: objects, or ids themselves.
func memberIDs(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > maxMembers {
		return nil, Errorf(TooMany, "members must have at most %d values", maxMembers)
	}
	ids, seen := make([]string, 0, len(list)), make(map[string]bool, len(list))
	for _, e := range list {
		id, ok := e.(string)
		if o, isObject := e.(Object); isObject {
			id, ok = member(o, "value").(string)
		}
		if !ok || id == "" || len(id) > maxText {
			return nil, Errorf(InvalidValue, "members must have the id of a user as value")
		}
		if !seen[id] {
			seen[id], ids = true, append(ids, id)
		}
	}
	return ids, nil
}

// PatchGroup returns the attributes of a group after the operations, without its members,
// and the changes of members in order. It does not change current.
func (t *Type) PatchGroup(current Object, list []Operation) (Object, []MemberChange, error) {
	out := clone(current).(Object)
	var changes []MemberChange
	for _, o := range list {
		members, rest, err := t.splitMembers(o)
		if err != nil {
			return nil, nil, err
		}
		if members != nil {
			changes = append(changes, *members)
		}
		if rest == nil {
			continue
		}
		if err := t.apply(out, *rest); err != nil {
			return nil, nil, err
		}
	}
	return out, changes, nil
}

// splitMembers divides an operation into the change of members and what remains; either may
// be nil.
func (t *Type) splitMembers(o Operation) (*MemberChange, *Operation, error) {
	if o.Path == "" {
		return splitObject(o)
	}
	p, err := t.ParsePath(o.Path)
	if err != nil || p.Attribute.Name != "members" {
		return nil, &o, nil // the error is reported when it is applied
	}
	change := &MemberChange{Op: o.Op}
	switch {
	case p.Sub != nil && (p.Filter != nil || p.Sub.Name != "value"):
		return nil, nil, Errorf(Mutability, "%.80s cannot be changed; add or remove the member", o.Path)
	case p.Filter != nil && o.Op != Remove:
		return nil, nil, Errorf(InvalidPath, "members can be selected only to remove them")
	case p.Filter != nil:
		if change.IDs, err = selectedMembers(p.Filter); err != nil {
			return nil, nil, err
		}
		return change, nil, nil
	case o.Value == nil:
		change.Op, change.All = Remove, o.Op != Add
		return change, nil, nil
	}
	change.IDs, err = memberIDs(o.Value)
	return change, nil, err
}

// splitObject does the same as splitMembers for an operation without a path.
func splitObject(o Operation) (*MemberChange, *Operation, error) {
	values, ok := o.Value.(Object)
	if !ok {
		return nil, &o, nil
	}
	rest := make(Object, len(values))
	var change *MemberChange
	for name, v := range values {
		if bare, isCore := cutURN(name, GroupURN); isCore && bare != "" {
			name = bare
		}
		if !strings.EqualFold(name, "members") {
			rest[name] = v
			continue
		}
		change = &MemberChange{Op: o.Op}
		if v == nil { // Okta means no change
			change = nil
			continue
		}
		var err error
		if change.IDs, err = memberIDs(v); err != nil {
			return nil, nil, err
		}
	}
	o.Value = rest
	return change, &o, nil
}

// selectedMembers returns the ids that a filter of members compares with.
func selectedMembers(f *Filter) ([]string, error) {
	if f.Op == Or {
		var ids []string
		for _, arg := range f.Args {
			more, err := selectedMembers(arg)
			if err != nil {
				return nil, err
			}
			ids = append(ids, more...)
		}
		slices.Sort(ids)
		return slices.Compact(ids), nil
	}
	id, ok := f.Value.(string)
	if f.Op != Equal || f.Path != "value" || !ok || id == "" {
		return nil, Errorf(InvalidFilter, "members can be selected only by value eq")
	}
	return []string{id}, nil
}
