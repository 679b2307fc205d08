package logstore

import (
	"bytes"
	"slices"

	"modelgate/internal/reqlog"
)

// filter is a plan in terms of one block: the strings it asks for are numbers
// there, so that an entry is matched without unpacking it.
type filter struct {
	plan   *plan
	wanted []condition
	pairs  [][2]uint64
	keys   []uint64 // of which one is wanted; nil takes all
}

// condition wants a string of the head to have this number.
type condition struct {
	of     func(*head) uint64
	number uint64
}

// filterFor returns the filter of p for b, and false when nothing in the block
// can match.
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
	if _, ok := b.number(p.q.Config); p.q.Config != "" && !ok {
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

// matches reports whether e is wanted.
func (f *filter) matches(e packed) (bool, error) {
	r := &reader{b: e.body[len(e.id):], strings: e.block.strings}
	h := readHead(r)
	if r.bad {
		return false, errDamaged
	}
	p := f.plan
	switch {
	case h.status < p.low || h.status > p.high,
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
	if p.q.Config == "" && !p.q.measures() {
		return true, nil
	}
	entry, err := e.entry() // these stand behind the rest
	return err == nil && (p.q.Config == "" || p.q.Config == entry.Config) && p.q.within(entry), err
}

// hasPairs reads the metadata, which r is at, when the filter asks for some.
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
