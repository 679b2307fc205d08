package provider

import (
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
)

// DialectFor returns the dialect of requests for model from clients of dialect
// d: d itself if the provider supports it, so that nothing is translated,
// otherwise the provider's preferred dialect. It is empty if there is none.
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

// converses reports whether the provider has a path for conversations in d.
func (s *Spec) converses(d api.Dialect) bool {
	op := d.ConversationOperation()
	if op == "" {
		return false
	}
	_, ok := s.Paths[op]
	return ok
}

// RequestTarget returns what a codec needs to translate a request for model,
// which is the upstream model.
func (s *Spec) RequestTarget(model string) dialect.RequestTarget {
	return dialect.RequestTarget{Provider: s.ID, Model: model, Profile: s.Profile}
}

// OperationNotSupported returns the error for an operation that t does not
// offer in any dialect.
func OperationNotSupported(t *Target, op api.Operation) error {
	return apierr.New(apierr.Unsupported,
		"provider %q does not offer %s on the unified route; send the provider's own path below /v1, which passes through, or choose another provider", t.ID, op)
}
