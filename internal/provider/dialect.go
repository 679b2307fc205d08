package provider

import (
	"slices"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
)

// DialectFor returns the dialect in which a client of dialect d reaches model: d
// itself where the provider speaks it, since then nothing is translated, else
// the one that the provider prefers. It is empty when there is none.
func (s *Spec) DialectFor(d api.Dialect, model string) api.Dialect {
	if s.Dialects == nil {
		if s.converses(d) {
			return d
		}
		if s.converses(s.Dialect) {
			return s.Dialect
		}
		return ""
	}
	spoken := s.Dialects(model)
	if slices.Contains(spoken, d) {
		return d
	}
	if len(spoken) > 0 {
		return spoken[0]
	}
	return ""
}

// converses reports whether the row has a path for conversations in d.
func (s *Spec) converses(d api.Dialect) bool {
	op := d.ConversationOperation()
	if op == "" {
		return false
	}
	_, ok := s.Paths[op]
	return ok
}

// RequestTarget returns what a codec needs to know to translate for model, which is
// spelled as it is sent.
func (s *Spec) RequestTarget(model string) dialect.RequestTarget {
	return dialect.RequestTarget{Provider: s.ID, Model: model, Profile: s.Profile}
}

// UnsupportedOperation is the error for an operation that t does not offer, not even in
// another dialect.
func UnsupportedOperation(t *Target, op api.Operation) error {
	return apierr.New(apierr.Unsupported,
		"provider %q does not offer %s on the unified route; send the provider's own path below /v1, which passes through, or choose another provider", t.ID, op)
}
