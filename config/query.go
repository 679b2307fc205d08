package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Op is an operator of a query.
type Op string

// Operators. Exists, Contains and Not are extensions of the specification.
const (
	Eq       Op = "$eq"  // equal type and value
	Ne       Op = "$ne"  // not $eq; true if the field is missing
	In       Op = "$in"  // equal to one of the operand's items
	Nin      Op = "$nin" // not $in; true if the field is missing
	Gt       Op = "$gt"  // as numbers; a string counts as its leading number
	Gte      Op = "$gte"
	Lt       Op = "$lt"
	Lte      Op = "$lte"
	Regex    Op = "$regex"    // RE2 pattern that matches anywhere in the string
	Contains Op = "$contains" // the string contains the operand, or the array has it as an item
	Exists   Op = "$exists"   // whether the field exists

	And Op = "$and" // all queries are true
	Or  Op = "$or"  // at least one query is true
	Not Op = "$not" // the query is false
)

var (
	fieldOps = []Op{Eq, Ne, In, Nin, Gt, Gte, Lt, Lte, Regex, Contains, Exists}
	joins    = []Op{And, Or, Not}
)

// Query is a condition on a request: a test of the field at Path, or several
// queries joined by And, Or or Not.
type Query struct {
	Op      Op
	Path    string          // of a test: "metadata.plan", "params.response_format.type"
	Operand json.RawMessage // of a test, as written
	Queries []*Query        // of a join, in the order of the text

	operand value
	pattern *regexp.Regexp
	steps   int // of the pattern per byte of text
}

// fieldRoots are the prefixes of valid paths.
var fieldRoots = []string{"metadata.", "params.", "headers.", "url."}

// ParseQuery parses a query by itself, as in a condition. The error is an
// *Errors.
func ParseQuery(b []byte) (*Query, error) {
	var fs faults
	v, ok := decode(b, &fs)
	if !ok {
		return nil, fs.err()
	}
	q, _ := queries.read(&reader{faults: &fs}, "$", v)
	return q, fs.err()
}

// queries reads and writes queries.
var queries = rule[*Query]{
	schema: &schema{Ref: "#/$defs/query"},
	read: func(r *reader, path string, v value) (*Query, bool) {
		q := readQuery(r, path, v, 0)
		return q, q != nil
	},
	write: func(_ writer, q *Query) (value, bool) {
		if q == nil {
			return value{kind: isObject}, false
		}
		return q.value(), true
	},
}

// readQuery reads an object whose members must all be true.
func readQuery(r *reader, path string, v value, depth int) *Query {
	if !want(r, path, v, isObject) {
		return nil
	}
	if depth > MaxDepth {
		r.fault(path, fmt.Sprintf("is nested deeper than %d levels of queries; flatten it", MaxDepth))
		return nil
	}
	all := &Query{Op: And, Queries: make([]*Query, 0, len(v.members))}
	for _, m := range v.members {
		at := property(path, m.name)
		if strings.HasPrefix(m.name, "$") {
			all.add(readJoin(r, at, m, depth))
			continue
		}
		all.add(readField(r, at, m, depth))
	}
	return all
}

// add adds q unless it could not be read.
func (q *Query) add(inner *Query) {
	if inner != nil {
		q.Queries = append(q.Queries, inner)
	}
}

func readJoin(r *reader, path string, m member, depth int) *Query {
	switch op := Op(m.name); op {
	case Not:
		return negate(readQuery(r, path, m.value, depth+1))
	case And, Or:
		if !want(r, path, m.value, isArray) {
			return nil
		}
		if len(m.value.items) == 0 {
			r.fault(path, "must contain at least one query; add one or remove "+m.name)
		}
		q := &Query{Op: op}
		for i, one := range m.value.items {
			q.add(readQuery(r, item(path, i), one, depth+1))
		}
		return q
	}
	if slices.Contains(fieldOps, Op(m.name)) {
		r.fault(path, "needs a field; write {\"metadata.x\": {"+quote(m.name)+": …}}")
		return nil
	}
	unknownOp(r, path, m.name, joins)
	return nil
}

func negate(q *Query) *Query {
	if q == nil {
		return nil
	}
	return &Query{Op: Not, Queries: []*Query{q}}
}

func unknownOp(r *reader, path, name string, known []Op) {
	names := make([]string, len(known))
	for i, op := range known {
		names[i] = string(op)
	}
	r.fault(path, "is not an operator here; use one of "+strings.Join(names, ", "))
}

// readField reads the tests of one field: a plain value, or operators that must
// all be true.
func readField(r *reader, path string, m member, depth int) *Query {
	if message := checkField(m.name); message != "" {
		r.fault(path, message)
		return nil
	}
	name := fieldPath(m.name)
	switch m.value.kind {
	case isArray:
		r.fault(path, "must be a plain value or operators; for one of several values write {\"$in\": [...]}")
		return nil
	case isObject:
		return readTests(r, path, name, m.value, depth)
	}
	return newTest(r, path, name, Eq, m.value)
}

func readTests(r *reader, path, name string, v value, depth int) *Query {
	if len(v.members) == 0 {
		r.fault(path, "has no operator; add one, as {\"$eq\": …}")
		return nil
	}
	if depth > MaxDepth {
		r.fault(path, fmt.Sprintf("is nested deeper than %d levels of queries; flatten it", MaxDepth))
		return nil
	}
	all := &Query{Op: And}
	for _, m := range v.members {
		at := property(path, m.name)
		switch {
		case Op(m.name) == Not && m.value.kind == isObject:
			all.add(negate(readTests(r, at, name, m.value, depth+1)))
		case Op(m.name) == Not:
			r.fault(at, "must be an object of operators, as {\"$regex\": …}")
		case !slices.Contains(fieldOps, Op(m.name)):
			unknownOp(r, at, m.name, append(slices.Clone(fieldOps), Not))
		default:
			all.add(newTest(r, at, name, Op(m.name), m.value))
		}
	}
	if len(all.Queries) == 1 {
		return all.Queries[0]
	}
	return all
}

// newTest checks the operand.
func newTest(r *reader, path, name string, op Op, operand value) *Query {
	q := &Query{Op: op, Path: name, Operand: operand.raw, operand: operand}
	if message := q.check(r); message != "" {
		r.fault(path, message)
		return nil
	}
	return q
}

// check prepares the operand and returns what is wrong with it, empty if
// nothing is.
func (q *Query) check(r *reader) string {
	v := q.operand
	switch q.Op {
	case Eq, Ne, Contains:
		if v.kind == isArray || v.kind == isObject {
			return "must be a plain value; objects and arrays can't be compared"
		}
	case In, Nin:
		if v.kind != isArray {
			return "must be an array of plain values"
		}
		if slices.ContainsFunc(v.items, func(i value) bool { return i.kind == isArray || i.kind == isObject }) {
			return "must contain only plain values; objects and arrays cannot be compared"
		}
	case Gt, Gte, Lt, Lte:
		if _, ok := v.float(); !ok {
			return "must be a number"
		}
	case Exists:
		if v.kind != isBool {
			return "must be true or false"
		}
	case Regex:
		if v.kind != isString {
			return "must be a pattern as a string"
		}
		var message string
		before := r.instructions
		q.pattern, message = r.compile(v.text)
		q.steps = r.instructions - before
		return message
	}
	return ""
}

// checkField returns what is wrong with the path of a request's field, empty if
// nothing is.
func checkField(path string) string {
	for _, root := range fieldRoots {
		if rest, ok := strings.CutPrefix(path, root); ok && rest != "" {
			return ""
		}
	}
	return "is not a field of a request; begin the path with metadata., params., headers. or url."
}

// fieldPath returns a path in the spelling for lookups: header names are in
// lower case.
func fieldPath(path string) string {
	if strings.HasPrefix(path, "headers.") {
		return strings.ToLower(path)
	}
	return path
}

// String returns the query as JSON in canonical form.
func (q *Query) String() string { return canonicalText(q.value()) }

// stickyField is the path of a field outside of a query, or [PrefixField].
var stickyField = func() rule[string] {
	k := checked(word, func(path string) string {
		if path == PrefixField {
			return ""
		}
		return checkField(path)
	})
	read := k.read
	k.read = func(r *reader, path string, v value) (string, bool) {
		name, ok := read(r, path, v)
		return fieldPath(name), ok
	}
	return k
}()

// value returns the query as JSON. Queries joined by And or Or are sorted,
// since their order has no meaning.
func (q *Query) value() value {
	switch q.Op {
	case Not:
		return object(string(Not), q.Queries[0].value())
	case Or:
		return object(string(Or), list(q.Queries))
	case And:
		return together(q.conjuncts())
	}
	return object(q.Path, object(string(q.Op), q.operand))
}

// conjuncts returns the queries that must all be true, without nested joins.
func (q *Query) conjuncts() []*Query {
	if q.Op != And {
		return []*Query{q}
	}
	var all []*Query
	for _, inner := range q.Queries {
		all = append(all, inner.conjuncts()...)
	}
	return all
}

func together(queries []*Query) value {
	switch len(queries) {
	case 0:
		return value{kind: isObject}
	case 1:
		return queries[0].value()
	}
	return object(string(And), list(queries))
}

func list(queries []*Query) value {
	v := value{kind: isArray}
	for _, q := range queries {
		v.items = append(v.items, q.value())
	}
	slices.SortFunc(v.items, func(a, b value) int { return strings.Compare(canonicalText(a), canonicalText(b)) })
	return v
}

func object(name string, inner value) value {
	return value{kind: isObject, members: []member{{name, inner}}}
}
