package guardrail

import (
	"strings"
	"sync"
)

// Text returns the text of all parts, joined with newlines. Empty ones are left out.
// Checks that read the same parts of an input share it.
func (in *Input) Text() string {
	if in.shared == nil {
		return joinParts(in.Parts)
	}
	in.shared.join.Do(func() { in.shared.text = joinParts(in.Parts) })
	return in.shared.text
}

// joinParts copies only if more than one part has text.
func joinParts(parts []Part) string {
	first, size, texts := "", -1, 0
	for i := range parts {
		if t := parts[i].Text; t != "" {
			if texts == 0 {
				first = t
			}
			size += len(t) + 1
			texts++
		}
	}
	if texts <= 1 {
		return first
	}
	var b strings.Builder
	b.Grow(size)
	for i := range parts {
		if t := parts[i].Text; t != "" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(t)
		}
	}
	return b.String()
}

// shared is what the checks of an input have in common: it is found once, not
// once for each check. It is safe for concurrent use.
type shared struct {
	join sync.Once
	text string

	mu       sync.Mutex
	readings []*reading // guarded by mu
}

// reading is an input for checks that read only some of its parts.
type reading struct {
	kinds  Kind
	scope  scope
	in     *Input
	places []int // of its parts in those of the input
}

// share returns a copy of in whose checks share what they find.
func (in *Input) share() *Input {
	out := *in
	out.shared = new(shared)
	return &out
}

// scope is which messages of a request a check reads.
type scope uint8

const (
	lastMessage  scope = iota
	conversation       // all messages except system prompts
	allMessages
)

// has reports whether the scope has a part.
func (s scope) has(p *Part) bool {
	return !p.Earlier || s == allMessages || s == conversation && p.Role != "system" && p.Role != "developer"
}

// reading returns the input for checks that read these kinds of parts in a scope, and
// the indexes of its parts; nil if it has all parts.
func (in *Input) reading(kinds Kind, of scope) (*Input, []int) {
	reads := func(p *Part) bool {
		return kinds&p.Kind != 0 && of.has(p) && (!p.Decoded || kinds&decoded != 0) && (p.Joins == nil || kinds&joined != 0)
	}
	n := 0
	for i := range in.Parts {
		if reads(&in.Parts[i]) {
			n++
		}
	}
	if n == len(in.Parts) {
		return in, nil
	}
	if in.shared == nil {
		return in.part(n, reads)
	}
	s := in.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readings {
		if r.kinds == kinds && r.scope == of {
			return r.in, r.places
		}
	}
	r := &reading{kinds: kinds, scope: of}
	r.in, r.places = in.part(n, reads)
	s.readings = append(s.readings, r)
	return r.in, r.places
}

// part returns the input with the n parts for which reads is true.
func (in *Input) part(n int, reads func(*Part) bool) (*Input, []int) {
	out := in.share()
	out.all, out.Parts = in.Parts, make([]Part, 0, n)
	places := make([]int, 0, n)
	for i := range in.Parts {
		if reads(&in.Parts[i]) {
			out.Parts, places = append(out.Parts, in.Parts[i]), append(places, i)
		}
	}
	return out, places
}
