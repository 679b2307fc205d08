// Package redact removes private data from bodies before they are stored.
//
// A [Redactor] replaces matches of its patterns by marks such as
// [redacted:email], and the values of denied fields by [redacted:field]. JSON
// stays JSON, and stream events stay events. The time is linear in the length
// of a body. It is pure, and does not decide what is recorded, which dataplane
// does. Data that is spread over several events, or written so that only a
// person recognises it, is not found.
package redact

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Rules says what is redacted. The zero value redacts nothing.
type Rules struct {
	Patterns []string // of [Patterns]
	Custom   []Custom

	// Fields are members of JSON objects: a plain name, such as password,
	// matches at any depth; a path from the root, such as messages.*.content,
	// may have stars for any name or index.
	Fields []string
}

// Custom is a pattern in the settings: a regular expression in RE2 syntax that
// does not match the empty string.
type Custom struct{ Name, Pattern string }

// Limits of [Rules].
const (
	maxCustom  = 50
	maxPattern = 1000 // bytes of one
	maxFields  = 100
	maxField   = 200 // bytes of one
	maxDepth   = 10  // names of a path
)

// Redactor applies rules. It is safe for concurrent use. A nil Redactor changes
// nothing.
type Redactor struct {
	find   []detector
	fields map[string]bool // plain names
	paths  [][]string
}

// detector finds the places in a text that match, in order.
type detector struct {
	mark  string
	least int // minimum length of a text with a match in bytes
	find  func(s string, found func(from, to int))
}

// Patterns returns the names of the built-in patterns.
func Patterns() []string { return slices.Sorted(maps.Keys(builtIn)) }

var builtIn = map[string]func(s string, found func(from, to int)){
	"credit_card": findCards,
	"email":       findEmails,
	"iban":        findIBANs,
	"ipv4":        findIPv4,
	"ipv6":        findIPv6,
	"phone":       findPhones,
	"secret":      findSecrets,
	"ssn":         findSSNs,
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Fault is the error of a rule.
type Fault struct {
	Rule string // for example custom[0].pattern
	Err  error
}

// Error implements error.
func (f *Fault) Error() string { return f.Rule + ": " + f.Err.Error() }

func fault(err error, rule string, i int) *Fault { return &Fault{fmt.Sprintf(rule, i), err} }

// New returns a redactor for r, nil if r redacts nothing. An error is a *Fault.
func New(r Rules) (*Redactor, error) {
	out := &Redactor{fields: make(map[string]bool)}
	for i, name := range r.Patterns {
		find, ok := builtIn[name]
		if !ok {
			return nil, fault(fmt.Errorf("%.40q is none of %s", name, strings.Join(Patterns(), ", ")), "patterns[%d]", i)
		}
		out.find = append(out.find, detector{mark(name), 6, find})
	}
	for i, c := range r.Custom {
		if i == maxCustom || !nameForm.MatchString(c.Name) {
			return nil, fault(fmt.Errorf("at most %d patterns have names of 1 to 40 letters, digits, dashes and underscores", maxCustom),
				"custom[%d].name", i)
		}
		d, err := c.detector()
		if err != nil {
			return nil, fault(err, "custom[%d].pattern", i)
		}
		out.find = append(out.find, d)
	}
	for i, f := range r.Fields {
		if i == maxFields || !out.deny(f) {
			return nil, fault(fmt.Errorf("at most %d fields are names, or up to %d names with dots between them and %d bytes", maxFields, maxDepth,
				maxField), "fields[%d]", i)
		}
	}
	if len(out.find)+len(out.fields)+len(out.paths) == 0 {
		return nil, nil
	}
	return out, nil
}

func mark(name string) string { return "[redacted:" + name + "]" }

func (c Custom) detector() (d detector, err error) {
	if len(c.Pattern) > maxPattern {
		return d, fmt.Errorf("a pattern has at most %d bytes", maxPattern)
	}
	re, err := regexp.Compile(c.Pattern)
	if err != nil {
		return d, err
	}
	if re.MatchString("") {
		return d, errors.New("the pattern matches the empty string")
	}
	return detector{mark(c.Name), 1, func(s string, found func(from, to int)) {
		for _, at := range re.FindAllStringIndex(s, -1) {
			found(at[0], at[1])
		}
	}}, nil
}

// deny adds a field, and returns false if it is invalid.
func (r *Redactor) deny(field string) bool {
	path := strings.Split(field, ".")
	if len(field) > maxField || len(path) > maxDepth || slices.Contains(path, "") || field == "*" {
		return false
	}
	if len(path) == 1 {
		r.fields[field] = true
	} else {
		r.paths = append(r.paths, path)
	}
	return true
}

// Text returns s with marks in place of the matches of the patterns.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	found := r.places(s)
	if len(found) == 0 {
		return s
	}
	var out strings.Builder
	at := 0
	for _, p := range found {
		out.WriteString(s[at:p.from])
		out.WriteString(p.mark)
		at = p.to
	}
	out.WriteString(s[at:])
	return out.String()
}

// place is a range of a text to redact.
type place struct {
	from, to int
	mark     string
}

// places returns the ranges to redact, in order and disjoint. Overlapping
// matches are merged under the name of the first.
func (r *Redactor) places(s string) (list []place) {
	for _, d := range r.find {
		if len(s) < d.least {
			continue
		}
		d.find(s, func(from, to int) { list = append(list, place{from, to, d.mark}) })
	}
	if len(list) < 2 {
		return list
	}
	slices.SortStableFunc(list, func(a, b place) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	apart := list[:1]
	for _, p := range list[1:] {
		last := &apart[len(apart)-1]
		if p.from < last.to {
			last.to = max(last.to, p.to)
			continue
		}
		apart = append(apart, p)
	}
	return apart
}

// Find calls found for each match of a built-in pattern in s; see [Patterns].
// Matches of secrets can overlap and come in any order. An unknown pattern finds
// nothing.
func Find(pattern, s string, found func(from, to int)) {
	if find := builtIn[pattern]; find != nil {
		find(s, found)
	}
}
