package scim

import (
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of a filter.
const (
	maxFilter      = 4096 // bytes
	maxFilterDepth = 16   // of parentheses, value paths and negations
	maxFilterTerms = 64   // comparisons
)

// Op is an operator of a filter.
type Op string

// Operators. Has compares the elements of a list: its only argument must be true for one
// of them.
const (
	And Op = "and"
	Or  Op = "or"
	Not Op = "not"
	Has Op = "[]"

	Equal          Op = "eq"
	NotEqual       Op = "ne"
	Contains       Op = "co"
	StartsWith     Op = "sw"
	EndsWith       Op = "ew"
	Present        Op = "pr"
	Greater        Op = "gt"
	GreaterOrEqual Op = "ge"
	Less           Op = "lt"
	LessOrEqual    Op = "le"
)

var comparisons = []Op{Equal, NotEqual, Contains, StartsWith, EndsWith, Greater, GreaterOrEqual, Less, LessOrEqual}

// Filter is a parsed filter. Its arguments or its path and value are set, by operator.
type Filter struct {
	Op   Op
	Args []*Filter // of And, Or, Not and Has

	// Path is the attribute, in lower case: a name, perhaps with a sub-attribute or after
	// the URN of a schema.
	Path  string
	Value any // string, bool, json.Number or nil for null
}

// ParseFilter parses the filter of a request.
func ParseFilter(s string) (*Filter, error) {
	p := filterParser{rest: s}
	if len(s) > maxFilter {
		return nil, Errorf(InvalidFilter, "the filter must be at most %d bytes long", maxFilter)
	}
	f, err := p.or()
	if err == nil && p.skip() != "" {
		err = p.fail("has unexpected text")
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// filterParser parses by recursive descent.
type filterParser struct {
	rest  string
	depth int
	terms int
}

func (p *filterParser) fail(what string) error {
	return Errorf(InvalidFilter, "the filter %s at %.40q", what, p.rest)
}

// skip skips spaces and returns the rest.
func (p *filterParser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " ")
	return p.rest
}

// word reads a keyword in any letter case, which ends at a space, a parenthesis or the end.
func (p *filterParser) word(want Op) bool {
	rest := p.skip()
	n := len(want)
	if len(rest) < n || !strings.EqualFold(rest[:n], string(want)) || len(rest) > n && !strings.ContainsRune(" ()[]", rune(rest[n])) {
		return false
	}
	p.rest = rest[n:]
	return true
}

// symbol reads a character.
func (p *filterParser) symbol(c string) bool {
	rest, ok := strings.CutPrefix(p.skip(), c)
	p.rest = rest
	return ok
}

func (p *filterParser) or() (*Filter, error)  { return p.logic(Or, p.and) }
func (p *filterParser) and() (*Filter, error) { return p.logic(And, p.term) }

// logic parses one or more terms between which op stands.
func (p *filterParser) logic(op Op, term func() (*Filter, error)) (*Filter, error) {
	f, err := term()
	if err != nil {
		return nil, err
	}
	args := []*Filter{f}
	for p.word(op) {
		if f, err = term(); err != nil {
			return nil, err
		}
		args = append(args, f)
	}
	if len(args) == 1 {
		return args[0], nil
	}
	return &Filter{Op: op, Args: args}, nil
}

// nested parses a filter that ends with a character.
func (p *filterParser) nested(end string) (*Filter, error) {
	if p.depth++; p.depth > maxFilterDepth {
		return nil, p.fail("is nested too deep")
	}
	f, err := p.or()
	p.depth--
	if err == nil && !p.symbol(end) {
		err = p.fail("lacks " + end)
	}
	return f, err
}

// term parses a comparison, a value path, or a filter in parentheses.
func (p *filterParser) term() (*Filter, error) {
	if p.symbol("(") {
		return p.nested(")")
	}
	if before := p.rest; p.word(Not) {
		if p.symbol("(") {
			f, err := p.nested(")")
			return &Filter{Op: Not, Args: []*Filter{f}}, err
		}
		p.rest = before // an attribute of this name
	}
	if p.terms++; p.terms > maxFilterTerms {
		return nil, p.fail("has too many comparisons")
	}
	path := p.attribute()
	if path == "" {
		return nil, p.fail("lacks an attribute")
	}
	if p.symbol("[") {
		return p.elements(path)
	}
	return p.comparison(path)
}

// elements parses the filter of a list's elements after its bracket. Entra compares an attribute
// of the elements after it, as in emails[type eq "work"].value eq "a@example.com".
func (p *filterParser) elements(path string) (*Filter, error) {
	f, err := p.nested("]")
	if err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(p.rest, "."); ok {
		p.rest = rest
		sub := p.attribute()
		compared, err := p.comparison(sub)
		if err != nil {
			return nil, err
		}
		f = &Filter{Op: And, Args: []*Filter{f, compared}}
	}
	return &Filter{Op: Has, Path: path, Args: []*Filter{f}}, nil
}

// attribute reads the name of an attribute, empty for none.
func (p *filterParser) attribute() string {
	rest := p.skip()
	n := strings.IndexFunc(rest, func(r rune) bool { return !isNameRune(r) && r != '.' && r != ':' })
	if n < 0 {
		n = len(rest)
	}
	p.rest = rest[n:]
	return strings.ToLower(rest[:n])
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '$'
}

func (p *filterParser) comparison(path string) (*Filter, error) {
	if p.word(Present) {
		return &Filter{Op: Present, Path: path}, nil
	}
	i := slices.IndexFunc(comparisons, p.word)
	if i < 0 {
		return nil, p.fail("lacks an operator")
	}
	v, err := p.value()
	return &Filter{Op: comparisons[i], Path: path, Value: v}, err
}

// value reads a JSON string, number, boolean or null. Words may have any letter case.
func (p *filterParser) value() (any, error) {
	for word, v := range map[Op]any{"true": true, "false": false, "null": nil} {
		if p.word(word) {
			return v, nil
		}
	}
	d := json.NewDecoder(strings.NewReader(p.skip()))
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		return nil, p.fail("lacks a value")
	}
	switch token.(type) {
	case string, json.Number:
		p.rest = p.rest[d.InputOffset():]
		return token, nil
	}
	return nil, p.fail("lacks a value")
}
