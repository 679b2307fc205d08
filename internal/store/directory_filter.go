package store

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"modelgate/internal/identity/scim"
)

// filterKind is how values of an attribute are compared.
type filterKind int

const (
	foldedText filterKind = iota // in any letter case: the column is in lower case
	exactText
	truth
	moment
	element // a value of a list, compared in a subquery
)

// filterColumn is a column that filters of an attribute compare.
type filterColumn struct {
	name string
	kind filterKind

	// of an element: the beginning of a subquery, which ends with a condition, and the
	// columns of the element's attributes, of which "" is the value of the element.
	exists string
	inner  map[string]filterColumn
}

var emailColumns = filterColumn{kind: element,
	exists: `EXISTS (SELECT 1 FROM directory_emails e WHERE e.organisation_id = d.organisation_id AND e.user_id = d.id`,
	inner: map[string]filterColumn{"": {name: "e.value_key"}, "value": {name: "e.value_key"}, "type": {name: "e.type_key"},
		"primary": {name: "e.is_primary", kind: truth}}}

// userColumns and groupColumns are the attributes that filters may name, in lower case.
var userColumns = map[string]filterColumn{
	"id": {name: "d.id", kind: exactText}, "externalid": {name: "d.external_id", kind: exactText},
	"username": {name: "d.name_key"}, "displayname": {name: "d.display_key"},
	"name.givenname": {name: "d.given_key"}, "name.familyname": {name: "d.family_key"}, "active": {name: "d.active", kind: truth},
	"meta.created": {name: "d.created_at", kind: moment}, "meta.lastmodified": {name: "d.updated_at", kind: moment},
	"emails": emailColumns,
	"groups": {kind: element,
		exists: `EXISTS (SELECT 1 FROM directory_group_members m WHERE m.user_id = d.id
			AND m.group_id IN (SELECT g.id FROM directory_groups g WHERE g.organisation_id = d.organisation_id)`,
		inner: map[string]filterColumn{"": {name: "m.group_id", kind: exactText}, "value": {name: "m.group_id", kind: exactText}}},
}

var groupColumns = map[string]filterColumn{
	"id": {name: "d.id", kind: exactText}, "externalid": {name: "d.external_id", kind: exactText}, "displayname": {name: "d.name_key"},
	"meta.created": {name: "d.created_at", kind: moment}, "meta.lastmodified": {name: "d.updated_at", kind: moment},
	"members": {kind: element, exists: `EXISTS (SELECT 1 FROM directory_group_members m WHERE m.group_id = d.id`,
		inner: map[string]filterColumn{"": {name: "m.user_id", kind: exactText}, "value": {name: "m.user_id", kind: exactText}}},
}

// directoryCondition returns the condition for the rows of an organisation that a filter
// selects, of the table d, and its arguments.
func directoryCondition(organisation string, f *scim.Filter, columns map[string]filterColumn) (where string, args []any, err error) {
	b := filterBuilder{args: []any{organisation}}
	where = ` WHERE d.organisation_id = $1`
	if f == nil {
		return where, b.args, nil
	}
	condition, err := b.condition(f, columns)
	return where + ` AND ` + condition, b.args, err
}

// filterBuilder collects the arguments of a condition. No text of a request becomes part of
// the statement.
type filterBuilder struct{ args []any }

// arg adds an argument and returns its placeholder.
func (b *filterBuilder) arg(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("$%d", len(b.args))
}

func (b *filterBuilder) condition(f *scim.Filter, columns map[string]filterColumn) (string, error) {
	switch f.Op {
	case scim.And, scim.Or:
		parts := make([]string, len(f.Args))
		for i, arg := range f.Args {
			var err error
			if parts[i], err = b.condition(arg, columns); err != nil {
				return "", err
			}
		}
		return "(" + strings.Join(parts, " "+strings.ToUpper(string(f.Op))+" ") + ")", nil
	case scim.Not:
		inner, err := b.condition(f.Args[0], columns)
		return "NOT " + inner, err
	case scim.Has:
		c, ok := columns[bare(f.Path)]
		if !ok || c.kind != element {
			return "", scim.Errorf(scim.InvalidFilter, "%.60q cannot be filtered by its elements", f.Path)
		}
		inner, err := b.condition(f.Args[0], c.inner)
		return c.exists + ` AND ` + inner + `)`, err
	}
	return b.comparison(f, columns)
}

// comparison returns the condition for one attribute.
func (b *filterBuilder) comparison(f *scim.Filter, columns map[string]filterColumn) (string, error) {
	path := bare(f.Path)
	if c, ok := columns[path]; ok && c.kind != element {
		return b.compare(f, c)
	}
	list, sub, _ := strings.Cut(path, ".")
	outer := columns[list]
	c, ok := outer.inner[sub]
	if !ok {
		return "", scim.Errorf(scim.InvalidFilter, "%.60q cannot be filtered", f.Path)
	}
	if f.Op == scim.NotEqual { // no element is equal
		same := *f
		same.Op = scim.Equal
		inner, err := b.compare(&same, c)
		return `NOT ` + outer.exists + ` AND ` + inner + `)`, err
	}
	inner, err := b.compare(f, c)
	return outer.exists + ` AND ` + inner + `)`, err
}

// bare returns a path without the URN of the core schema.
func bare(path string) string {
	for _, urn := range [...]string{scim.UserURN, scim.GroupURN} {
		if rest, ok := strings.CutPrefix(path, strings.ToLower(urn)+":"); ok {
			return rest
		}
	}
	return path
}

func (b *filterBuilder) compare(f *scim.Filter, c filterColumn) (string, error) {
	switch c.kind {
	case truth:
		return b.compareTruth(f, c.name)
	case moment:
		return b.compareTime(f, c.name)
	}
	value, ok := f.Value.(string)
	if f.Value == nil && (f.Op == scim.Equal || f.Op == scim.NotEqual) {
		ok = true // null is an absent value, which is stored as an empty one
	}
	switch {
	case f.Op == scim.Present:
		return c.name + ` <> ''`, nil
	case !ok:
		return "", scim.Errorf(scim.InvalidFilter, "%.60q must be compared with a string", f.Path)
	case strings.Contains(value, "\x00"):
		return "", scim.Errorf(scim.InvalidFilter, "the filter contains NUL")
	case c.kind == foldedText:
		value = strings.ToLower(value)
	}
	return b.compareText(f, c.name, value)
}

func (b *filterBuilder) compareText(f *scim.Filter, column, value string) (string, error) {
	length := utf8.RuneCountInString(value)
	switch f.Op {
	case scim.Equal:
		return column + ` = ` + b.arg(value), nil
	case scim.NotEqual:
		return column + ` <> ` + b.arg(value), nil
	}
	if value == "" { // part of every value
		return column + ` <> ''`, nil
	}
	switch f.Op {
	case scim.Contains:
		return `REPLACE(` + column + `, ` + b.arg(value) + `, '') <> ` + column, nil
	case scim.StartsWith:
		return fmt.Sprintf(`SUBSTR(%s, 1, %d) = %s`, column, length, b.arg(value)), nil
	case scim.EndsWith:
		return fmt.Sprintf(`(LENGTH(%[1]s) >= %[2]d AND SUBSTR(%[1]s, LENGTH(%[1]s) - %[2]d + 1) = %[3]s)`, column, length, b.arg(value)), nil
	}
	return "", scim.Errorf(scim.InvalidFilter, "%.60q cannot be compared with %s", f.Path, f.Op)
}

// compareTruth compares a boolean. Entra spells booleans in filters as strings.
func (b *filterBuilder) compareTruth(f *scim.Filter, column string) (string, error) {
	if f.Op == scim.Present {
		return `1 = 1`, nil
	}
	want, ok := f.Value.(bool)
	if s, isText := f.Value.(string); isText && (strings.EqualFold(s, "true") || strings.EqualFold(s, "false")) {
		want, ok = strings.EqualFold(s, "true"), true
	}
	switch {
	case !ok:
		return "", scim.Errorf(scim.InvalidFilter, "%.60q must be compared with true or false", f.Path)
	case f.Op == scim.Equal:
		return column + ` = ` + b.arg(want), nil
	case f.Op == scim.NotEqual:
		return column + ` <> ` + b.arg(want), nil
	}
	return "", scim.Errorf(scim.InvalidFilter, "%.60q cannot be compared with %s", f.Path, f.Op)
}

// timeOperators are the operators of times, in SQL.
var timeOperators = map[scim.Op]string{scim.Equal: "=", scim.NotEqual: "<>", scim.Greater: ">", scim.GreaterOrEqual: ">=",
	scim.Less: "<", scim.LessOrEqual: "<="}

func (b *filterBuilder) compareTime(f *scim.Filter, column string) (string, error) {
	if f.Op == scim.Present {
		return `1 = 1`, nil
	}
	text, _ := f.Value.(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	op, ok := timeOperators[f.Op]
	switch {
	case err != nil:
		return "", scim.Errorf(scim.InvalidFilter, "%.60q must be compared with a time such as 2026-01-31T12:00:00Z", f.Path)
	case !ok:
		return "", scim.Errorf(scim.InvalidFilter, "%.60q cannot be compared with %s", f.Path, f.Op)
	}
	return column + ` ` + op + ` ` + b.arg(at.UnixMilli()), nil
}
