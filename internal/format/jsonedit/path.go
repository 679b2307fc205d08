package jsonedit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Path selects values in a document: names separated by dots, [n] for element n
// of an array (from 0), [*] for every element, for example "messages[*].name".
// A name that is empty or contains a dot, a bracket or a quote is written as a
// JSON string in brackets: `metadata["a.b"]`. Paths are made by [ParsePath];
// the zero Path selects nothing.
type Path struct{ steps []step }

// step selects the member called name, or elements of an array.
type step struct {
	name  string
	index int // asMember, everyElement, or the index of an element
}

const (
	asMember     = -1
	everyElement = -2
)

// special are the characters that a name outside of brackets may not contain.
const special = `.[]"`

// ParsePath parses a path. Its errors name the position in the text.
func ParsePath(s string) (Path, error) {
	var p Path
	for rest := s; rest != "" || len(p.steps) == 0; {
		next, n, err := parseStep(rest, len(p.steps) == 0)
		if err != nil {
			return Path{}, fmt.Errorf("path %q, after %q: %w", s, s[:len(s)-len(rest)], err)
		}
		p.steps = append(p.steps, next)
		rest = rest[n:]
	}
	return p, nil
}

var (
	errNoName    = errors.New("expected a name")
	errNoDot     = errors.New("expected '.' or '[' after a step")
	errNoBracket = errors.New("expected ']'")
	errNoIndex   = errors.New(`expected a number, * or a name in double quotes after '['`)
)

// parseStep parses the step at the start of s and returns its length.
func parseStep(s string, first bool) (step, int, error) {
	if strings.HasPrefix(s, "[") {
		return parseBracket(s)
	}
	from := 0
	if !first {
		if s[0] != '.' {
			return step{}, 0, errNoDot
		}
		from = 1
	}
	n := strings.IndexAny(s[from:], special)
	if n < 0 {
		n = len(s) - from
	}
	if n == 0 {
		return step{}, 0, errNoName
	}
	return step{s[from : from+n], asMember}, from + n, nil
}

// parseBracket parses [n], [*] or ["name"].
func parseBracket(s string) (step, int, error) {
	if strings.HasPrefix(s, `["`) {
		return parseQuoted(s)
	}
	n := strings.IndexByte(s, ']')
	if n < 0 {
		return step{}, 0, errNoBracket
	}
	if s[1:n] == "*" {
		return step{index: everyElement}, n + 1, nil
	}
	i, err := strconv.ParseUint(s[1:n], 10, 31)
	if err != nil {
		return step{}, 0, errNoIndex
	}
	return step{index: int(i)}, n + 1, nil
}

func parseQuoted(s string) (step, int, error) {
	sc := scanner{b: []byte(s)}
	end := sc.str(2)
	if end < 0 {
		return step{}, 0, errors.New(sc.problem)
	}
	if end == len(s) || s[end] != ']' {
		return step{}, 0, errNoBracket
	}
	return step{unescape(sc.b[2 : end-1]), asMember}, end + 1, nil
}

// String returns the path in the form that [ParsePath] accepts.
func (p Path) String() string {
	var out []byte
	for _, st := range p.steps {
		switch {
		case st.index == everyElement:
			out = append(out, "[*]"...)
		case st.index >= 0:
			out = append(strconv.AppendInt(append(out, '['), int64(st.index), 10), ']')
		case st.name == "" || strings.ContainsAny(st.name, special):
			out = append(AppendString(append(out, '['), st.name), ']')
		case len(out) == 0:
			out = append(out, st.name...)
		default:
			out = append(append(out, '.'), st.name...)
		}
	}
	return string(out)
}

// takes reports whether the step selects element i of an array.
func (st step) takes(i int) bool { return st.index == everyElement || st.index == i }

// Get returns the first value that p selects. The document must be valid; the
// last of several members with a key wins. It returns false if p selects
// nothing.
func Get(doc []byte, p Path) (Value, bool) {
	v, err := ParseValue(doc)
	if err != nil || len(p.steps) == 0 {
		return Value{}, false
	}
	return v.follow(p.steps)
}

func (v Value) follow(steps []step) (found Value, ok bool) {
	if len(steps) == 0 {
		return v, true
	}
	st := steps[0]
	if st.index == asMember {
		if v, ok = v.Get(st.name); !ok {
			return Value{}, false
		}
		return v.follow(steps[1:])
	}
	i := 0
	for element := range v.Elements() {
		if st.takes(i) {
			if found, ok = element.follow(steps[1:]); ok {
				break
			}
		}
		i++
	}
	return found, ok
}

// Delete appends doc to dst without the values that p selects; dst must not
// overlap it. White space and commas are removed as in [Doc.Apply], and every
// other byte is unchanged. All members with a duplicate key are deleted. If p
// selects nothing, the document is unchanged. If doc is invalid, it returns an
// error and dst unchanged.
func Delete(dst, doc []byte, p Path) ([]byte, error) {
	return edit(dst, doc, change{steps: p.steps})
}

// Set appends doc to dst with the values that p selects replaced by value,
// which must be valid JSON; dst must not overlap doc. Every other byte is
// unchanged. All members with a duplicate key are set. A missing member is
// appended at the end of its object, with nested objects for further names; Set
// does not add elements to arrays or replace values of another kind by objects.
// If doc is invalid, it returns an error and dst unchanged.
func Set(dst, doc []byte, p Path, value []byte) ([]byte, error) {
	return edit(dst, doc, change{steps: p.steps, value: value})
}

func edit(dst, doc []byte, c change) ([]byte, error) {
	s := scanner{b: doc}
	from, to := s.document()
	if to < 0 {
		return dst, s.error()
	}
	if len(c.steps) == 0 {
		return append(dst, doc...), nil
	}
	dst = append(dst, doc[:from]...)
	dst = c.apply(dst, Value{doc[from:to]})
	return append(dst, doc[to:]...), nil
}

// change is the part of an edit at one level: the remaining steps and the new
// value, nil to delete.
type change struct {
	steps []step
	value []byte
}

// apply appends v with the change made. There must be at least one step.
func (c change) apply(dst []byte, v Value) []byte {
	s := splice{src: v.raw, end: 1}
	switch {
	case c.steps[0].index == asMember && v.Kind() == Object:
		return c.object(dst, v, &s)
	case c.steps[0].index != asMember && v.Kind() == Array:
		return c.array(dst, v, &s)
	}
	return append(dst, v.raw...)
}

func (c change) object(dst []byte, v Value, s *splice) []byte {
	found := false
	for i := space(v.raw, 1); v.raw[i] != '}'; i = comma(v.raw, i) {
		key, keyEnd := i, skipString(v.raw, i+1)
		value := colon(v.raw, keyEnd)
		i = skip(v.raw, value)
		if !(Key{v.raw[key:keyEnd]}).Is(c.steps[0].name) {
			dst = s.keep(dst, key, i)
			continue
		}
		found = true
		dst = c.item(dst, s, key, value, i)
	}
	dst = s.close(dst)
	if !found && c.value != nil {
		dst = c.missing(dst, s)
	}
	return s.tail(dst)
}

func (c change) array(dst []byte, v Value, s *splice) []byte {
	n := 0
	for i := space(v.raw, 1); v.raw[i] != ']'; i = comma(v.raw, i) {
		from := i
		i = skip(v.raw, i)
		if c.steps[0].takes(n) {
			dst = c.item(dst, s, from, from, i)
		} else {
			dst = s.keep(dst, from, i)
		}
		n++
	}
	return s.tail(s.close(dst))
}

// item applies the change to an item that begins at from and whose value is
// src[value:end].
func (c change) item(dst []byte, s *splice, from, value, end int) []byte {
	last := len(c.steps) == 1
	if last && c.value == nil {
		s.drop(from, end)
		return dst
	}
	dst = s.keep(dst, from, end)
	dst = s.upTo(dst, value, end)
	if last {
		return append(dst, c.value...)
	}
	inner := change{c.steps[1:], c.value}
	return inner.apply(dst, Value{s.src[value:end]})
}

// missing appends a missing member of an object, if all remaining steps are
// names.
func (c change) missing(dst []byte, s *splice) []byte {
	for _, st := range c.steps {
		if st.index != asMember {
			return dst
		}
	}
	dst = append(AppendString(s.comma(dst), c.steps[0].name), ':')
	for _, st := range c.steps[1:] {
		dst = append(AppendString(append(dst, '{'), st.name), ':')
	}
	dst = append(dst, c.value...)
	for range c.steps[1:] {
		dst = append(dst, '}')
	}
	return dst
}
