package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Lookup returns the field of a request at a path of a Query: below metadata,
// params, headers (names in lower case) or url. The value is JSON text;
// metadata and headers are JSON strings. It returns false if the field is
// missing.
type Lookup func(path string) (json.RawMessage, bool)

// Work is the number of steps that matching has taken: one step is one byte of
// text for one instruction of a pattern. A query that exceeds the limit has no
// valid result, so the caller must check [Work.Exceeded] after each.
type Work int64

// MaxWork is the maximum number of steps that the conditions of a config may
// take for a request.
const MaxWork Work = 200_000_000

// Exceeded reports whether more than MaxWork steps were taken.
func (w *Work) Exceeded() bool { return *w > MaxWork }

// Spend adds n steps and reports whether the total is within MaxWork.
func (w *Work) Spend(n int) bool {
	*w += Work(n)
	return !w.Exceeded()
}

// Match reports whether a request matches the query. A test of a missing field
// is false, except $ne and $nin. Patterns add their steps to work. It is safe
// for concurrent use if lookup is and each caller has its own work.
func (q *Query) Match(lookup Lookup, work *Work) bool {
	holds := func(inner *Query) bool { return inner.Match(lookup, work) }
	fails := func(inner *Query) bool { return !inner.Match(lookup, work) }
	if work.Exceeded() {
		return false
	}
	switch q.Op {
	case And:
		return !slices.ContainsFunc(q.Queries, fails)
	case Or:
		return slices.ContainsFunc(q.Queries, holds)
	case Not:
		return !slices.ContainsFunc(q.Queries, holds)
	}
	found := q.find(lookup)
	switch q.Op {
	case Exists:
		return (len(found) > 0) == (q.operand.text == "true")
	case Ne, Nin:
		return !slices.ContainsFunc(found, q.equals)
	}
	return slices.ContainsFunc(found, func(v value) bool {
		return (q.Op != Regex || work.Spend(q.steps*(len(v.text)+1))) && q.test(v)
	})
}

// find returns the values of the field to test: none if it is missing, and two
// for the path of the request, with and without its version.
func (q *Query) find(lookup Lookup) []value {
	raw, ok := lookup(q.Path)
	if !ok {
		return nil
	}
	v := q.field(raw)
	if short, versioned := strings.CutPrefix(v.text, "/v1/"); versioned && q.Path == "url.pathname" {
		return []value{v, {kind: isString, text: "/" + short}}
	}
	return []value{v}
}

// field reads a value as far as the test needs it: only Contains reads arrays,
// and of objects only the existence matters, since both may be long.
func (q *Query) field(raw json.RawMessage) value {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return value{}
	case raw[0] == '{', raw[0] == '[' && q.Op != Contains:
		return value{kind: isObject}
	case raw[0] == '"':
		return value{kind: isString, text: unquote(raw)}
	case raw[0] == 't', raw[0] == 'f':
		return value{kind: isBool, text: string(raw)}
	case raw[0] == 'n':
		return value{kind: isNull}
	case raw[0] == '[':
		var ignored faults
		v, _ := decode(raw, &ignored)
		return v
	}
	return value{kind: isNumber, text: string(raw)}
}

// unquote returns the value of a JSON string.
func unquote(raw []byte) string {
	inside := raw[1:max(1, len(raw)-1)]
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	var s string
	// Text that is not a JSON string is treated as the empty string.
	_ = json.Unmarshal(raw, &s)
	return s
}

// test reports whether one value passes an operator other than a negative one.
func (q *Query) test(v value) bool {
	switch q.Op {
	case Eq, In:
		return q.equals(v)
	case Regex:
		return v.plain() && q.pattern.MatchString(v.text)
	case Contains:
		return q.contains(v)
	}
	field, ok := v.float()
	if !ok {
		return false
	}
	bound, _ := q.operand.float()
	switch q.Op {
	case Gt:
		return field > bound
	case Gte:
		return field >= bound
	case Lt:
		return field < bound
	default:
		return field <= bound
	}
}

// equals reports whether v is the operand or one of its items.
func (q *Query) equals(v value) bool {
	if q.operand.kind == isArray {
		return slices.ContainsFunc(q.operand.items, v.same)
	}
	return v.same(q.operand)
}

func (q *Query) contains(v value) bool {
	if v.kind == isArray {
		return slices.ContainsFunc(v.items, q.operand.same)
	}
	return v.kind == isString && q.operand.kind == isString && strings.Contains(v.text, q.operand.text)
}

// same reports whether two scalar values have the same type and value.
func (v value) same(other value) bool {
	if v.kind != other.kind || v.kind == isArray || v.kind == isObject {
		return false
	}
	if v.kind == isNumber {
		return canonicalNumber(v.text) == canonicalNumber(other.text)
	}
	return v.text == other.text
}

// plain reports whether v has text for a pattern.
func (v value) plain() bool {
	return v.kind == isString || v.kind == isNumber || v.kind == isBool
}

// float returns the number that v is or begins with, so that "12abc" is 12:
// metadata and headers are strings, and often have a unit.
func (v value) float() (float64, bool) {
	if v.kind != isNumber && v.kind != isString {
		return 0, false
	}
	f, err := strconv.ParseFloat(leadingNumber(strings.TrimSpace(v.text)), 64)
	return f, err == nil
}

// leadingNumber returns the decimal number at the start of s.
func leadingNumber(s string) string {
	end := sign(s, 0)
	start := end
	end = digits(s, end)
	if end < len(s) && s[end] == '.' {
		end = digits(s, end+1)
	}
	if strings.Trim(s[start:end], ".") == "" {
		return ""
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		from := sign(s, end+1)
		if to := digits(s, from); to > from {
			end = to
		}
	}
	return s[:end]
}

func sign(s string, at int) int {
	if at < len(s) && (s[at] == '+' || s[at] == '-') {
		return at + 1
	}
	return at
}

func digits(s string, at int) int {
	for at < len(s) && '0' <= s[at] && s[at] <= '9' {
		at++
	}
	return at
}
