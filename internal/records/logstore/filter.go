package logstore

import (
	"bytes"
	"slices"
	"strings"

	"modelgate/internal/records/reqlog"
)

// filter is a plan for one block: the strings it compares are numbers of the block, so
// that entries are matched without decoding them.
type filter struct {
	plan   *plan
	wanted []condition
	pairs  [][2]uint64
	keys   []uint64 // nil matches all
}

// condition requires a string of the head to have this number.
type condition struct {
	of     func(*head) uint64
	number uint64
}

// filterFor returns the filter of p for b, and false if nothing in the block can match.
func (p *plan) filterFor(b *blockReader, data []byte) (filter, bool) {
	f := filter{plan: p}
	for _, c := range []struct {
		text string
		of   func(*head) uint64
	}{
		{p.q.Scope.Organisation, func(h *head) uint64 { return h.organisation }},
		{p.q.Scope.Workspace, func(h *head) uint64 { return h.workspace }},
		{p.q.Workspace, func(h *head) uint64 { return h.workspace }},
		{p.q.Model, func(h *head) uint64 { return h.model }},
		{p.q.Provider, func(h *head) uint64 { return h.provider }},
		{p.q.KeyID, func(h *head) uint64 { return h.key }},
		{string(p.q.Operation), func(h *head) uint64 { return h.operation }},
	} {
		if c.text == "" {
			continue
		}
		n, ok := b.number(c.text)
		if !ok {
			return f, false
		}
		f.wanted = append(f.wanted, condition{c.of, n})
	}
	for field, list := range p.q.Is {
		if !b.mayHave(field, list) {
			return f, false
		}
	}
	for _, text := range []string{p.q.Slug, p.q.UpstreamModel, p.q.ResponseModel, p.q.Target} {
		if _, ok := b.number(text); text != "" && !ok {
			return f, false
		}
	}
	if p.q.Providers != nil && !slices.ContainsFunc(p.q.Providers, func(p Provider) bool {
		return b.mayHave(ByService, []string{p.Service}) && b.mayHave(ByProvider, []string{p.Slug})
	}) {
		return f, false
	}
	if p.q.Configs != nil && !b.mayHave(ByConfig, p.q.Configs) {
		return f, false
	}
	if p.q.Scope.Keys != nil {
		for _, id := range p.q.Scope.Keys {
			if n, ok := b.number(id); ok {
				f.keys = append(f.keys, n)
			}
		}
		if f.keys == nil {
			return f, false
		}
	}
	for key, value := range p.q.Metadata {
		k, okKey := b.number(key)
		v, okValue := b.number(value)
		if !okKey || !okValue {
			return f, false
		}
		f.pairs = append(f.pairs, [2]uint64{k, v})
	}
	return f, p.q.TraceID == "" || bytes.Contains(data, []byte(p.q.TraceID))
}

// mayHave reports whether the block may have an entry with one of these values of a field.
func (b *blockReader) mayHave(f Field, list []string) bool {
	if f == ByStatus || f == ByOutcome {
		return true
	}
	return slices.ContainsFunc(list, func(value string) bool {
		whole, _, _ := strings.Cut(value, "@") // without its version
		for _, text := range b.strings {
			if clipped := clip(text); clipped == value || clipped == whole || value == "" {
				return true
			}
		}
		return false
	})
}

// matches reports whether e matches.
func (f *filter) matches(e packed) (bool, error) {
	r := &reader{b: e.body[len(e.id):], strings: e.block.strings}
	h := readHead(r)
	if r.bad {
		return false, errDamaged
	}
	p := f.plan
	switch {
	case !hasStatus(p.statuses, int(h.status)),
		p.q.MaxLatency > 0 && h.total > int64(p.q.MaxLatency),
		h.total < int64(p.q.MinLatency),
		p.q.Stream != nil && *p.q.Stream != (h.flags&flagStream != 0),
		p.q.TraceID != "" && p.q.TraceID != string(h.trace),
		p.traces != nil && !p.traces[string(h.trace)],
		f.keys != nil && !slices.Contains(f.keys, h.key):
		return false, nil
	}
	for _, c := range f.wanted {
		if c.of(&h) != c.number {
			return false, nil
		}
	}
	if !f.hasPairs(r) {
		return false, nil
	}
	if !p.q.namesLater() && !p.q.measures() {
		return true, nil
	}
	entry, err := e.entry() // these fields are stored after the metadata
	return err == nil && p.q.matchesLater(entry) && p.q.matchesMeasures(entry), err
}

// namesLater reports whether the query has filters that matchesLater checks.
func (q *Query) namesLater() bool {
	return q.Configs != nil || q.Slug != "" || q.UpstreamModel != "" || q.ResponseModel != "" || q.Target != "" ||
		q.Outcome != "" || len(q.Is) > 0 || q.Providers != nil
}

// matchesLater checks the filters by names that the head of an encoded entry does not
// contain.
func (q *Query) matchesLater(e *reqlog.Entry) bool {
	if len(q.Is) > 0 || q.Configs != nil || q.Target != "" {
		k := keyOf(e)
		for field, list := range q.Is {
			if !k.is(field, list) {
				return false
			}
		}
		if q.Configs != nil && !k.is(ByConfig, q.Configs) || q.Target != "" && !k.is(ByTarget, []string{clip(q.Target)}) {
			return false
		}
	}
	matches := func(p Provider) bool { return p.Matches(e.Provider, e.Slug) }
	if q.Providers != nil && !slices.ContainsFunc(q.Providers, matches) {
		return false
	}
	return equalOrEmpty(q.Slug, e.Slug) &&
		equalOrEmpty(q.UpstreamModel, e.UpstreamModel) && equalOrEmpty(q.ResponseModel, e.ResponseModel) &&
		equalOrEmpty(q.Outcome, e.Outcome().String())
}

func equalOrEmpty(want, got string) bool { return want == "" || want == got }

// Matcher checks single entries like a list does, except for times, ranges and text.
type Matcher struct {
	q        Query
	statuses []statusSpan
}

// Matcher returns the matcher of q. An invalid filter is an error that names it.
func (q Query) Matcher() (*Matcher, error) {
	m := &Matcher{q: q}
	var err error
	if m.statuses, err = statusSpans(q.Status); err != nil {
		return nil, err
	}
	return m, q.checkOutcome()
}

// Matches reports whether a list would contain e.
func (m *Matcher) Matches(e *reqlog.Entry) bool {
	q := &m.q
	switch {
	case !q.Scope.shows(e),
		!hasStatus(m.statuses, e.Status),
		q.MaxLatency > 0 && e.Total > q.MaxLatency,
		e.Total < q.MinLatency,
		q.Stream != nil && *q.Stream != e.Stream,
		!q.matchesLater(e):
		return false
	}
	for _, pair := range [...][2]string{
		{q.Workspace, e.Workspace}, {q.Model, e.Model}, {q.Provider, e.Provider}, {q.KeyID, e.KeyID},
		{q.TraceID, e.TraceID}, {string(q.Operation), string(e.Operation)},
	} {
		if !equalOrEmpty(pair[0], pair[1]) {
			return false
		}
	}
	for key, value := range q.Metadata {
		if v, ok := e.Metadata[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// hasPairs decodes the metadata, at which r must be, and checks the pairs that the
// filter requires.
func (f *filter) hasPairs(r *reader) bool {
	if len(f.pairs) == 0 {
		return true
	}
	found := 0
	for range r.count(2) {
		pair := [2]uint64{r.uvarint(), r.uvarint()}
		for _, want := range f.pairs {
			if pair == want {
				found++
			}
		}
	}
	return found == len(f.pairs)
}

func less(a, b reqlog.ID) bool { return bytes.Compare(a[:], b[:]) < 0 }
