// Package modeldata holds what is known of models: which endpoints serve them,
// how they think, what they accept.
//
// It is data: a table per vendor, a row per family, each with a pattern, a
// source and the date on which the source was read. Models that a vendor will
// publish later have the rules of its newest family, which is the last row of
// its table. No other package contains names of models. The tables never
// change; goroutines may share them.
package modeldata

import (
	"slices"
	"strings"

	"modelgate/api"
)

// Model is a row: what is known of the models whose names match a pattern.
type Model struct {
	// Pattern matches names in lower case, with dashes for dots and without a
	// path or a prefix of a host. A leading ^ anchors it at the beginning; a *
	// stands for any text. A part ends with an entire word or number:
	// opus-4-1 is not opus-4-10, pro is not prod.
	Pattern string
	Source  string // address of the documentation
	Read    string // date on which the source was read, as 2006-01-02

	// Dialects are those in which the vendor serves the models, the one for
	// translated requests first. Nil means all that the provider has.
	Dialects []api.Dialect

	// Efforts are the accepted thinking efforts, the least first. Nil means
	// that the models do not think, or not by efforts.
	Efforts []string

	parts    []string // of Pattern, around each *
	anchored bool
}

// HasRow reports whether a row of the table matched, so that the model is known.
func (m *Model) HasRow() bool { return m.Pattern != "" }

// Thinks reports whether the models accept a thinking effort.
func (m *Model) Thinks() bool { return len(m.Efforts) > 0 }

// efforts are all efforts, the least first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Effort returns the accepted effort nearest to the one given: itself, else the
// highest below it, else the lowest. It returns an effort unchanged that has no
// rank, and any if the models accept none.
func (m *Model) Effort(effort string) string {
	rank := slices.Index(efforts, effort)
	if rank < 0 || len(m.Efforts) == 0 {
		return effort
	}
	nearest := m.Efforts[0]
	for _, e := range m.Efforts {
		if slices.Index(efforts, e) <= rank {
			nearest = e
		}
	}
	return nearest
}

// Table holds the rows of a vendor. The first that matches a name applies.
type Table []Model

// newTable returns a table of rows.
func newTable(rows ...Model) Table {
	for i := range rows {
		pattern, anchored := strings.CutPrefix(rows[i].Pattern, "^")
		rows[i].parts, rows[i].anchored = strings.Split(pattern, "*"), anchored
	}
	return rows
}

// Of returns the row for a model's name, and an empty one if none matches, as
// for the name of a deployment.
func (t Table) Of(name string) *Model {
	name = plain(name)
	for i := range t {
		if t[i].matches(name) {
			return &t[i]
		}
	}
	return &unknown
}

// unknown is the row of models that no table has.
var unknown Model

// hosts are prefixes that hosts of a vendor's models put before their names.
var hosts = []string{"ft:", "openai.", "databricks-"}

// plain returns the form of a name that patterns match.
func plain(name string) string {
	name = strings.ToLower(name)
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, h := range hosts {
		name = strings.TrimPrefix(name, h)
	}
	return strings.ReplaceAll(name, ".", "-")
}

// matches reports whether a name in its plain form matches the pattern.
func (m *Model) matches(name string) bool {
	for i, part := range m.parts {
		at := 0
		if i > 0 || !m.anchored {
			at = find(name, part)
		} else if !strings.HasPrefix(name, part) || !endsWord(name, part) {
			return false
		}
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}

// find returns the index of part in name, where it ends with an entire word
// or number; -1 if there is none.
func find(name, part string) int {
	for at := 0; ; at++ {
		i := strings.Index(name[at:], part)
		if i < 0 {
			return -1
		}
		if at += i; endsWord(name[at:], part) {
			return at
		}
	}
}

// endsWord reports whether a word or number at the end of a prefix of name ends
// there.
func endsWord(name, prefix string) bool {
	n := len(prefix)
	return n == 0 || n == len(name) || class(name[n-1]) == 0 || class(name[n-1]) != class(name[n])
}

// class tells digits from letters and from everything else, which is zero.
func class(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return 1
	case 'a' <= c && c <= 'z':
		return 2
	}
	return 0
}
