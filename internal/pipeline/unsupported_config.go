package pipeline

import (
	"context"

	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
)

// ignoredProperties returns the names of properties of an effective config that
// this version does not implement. They are announced with every response, so
// that no user relies on them.
func (b *build) ignoredProperties(n *config.Config) []string {
	var names []string
	for _, p := range [...]struct {
		name  string
		given bool
	}{
		{"cache", n.Cache != nil && (b.Engine == nil || b.Engine.Cache == nil)},
		{"before_request_hooks", len(n.BeforeHooks) > 0},
		{"after_request_hooks", len(n.AfterHooks) > 0},
		{"input_guardrails", len(n.InputGuardrails) > 0},
		{"output_guardrails", len(n.OutputGuardrails) > 0},
		{"input_mutators", len(n.InputMutators) > 0},
		{"output_mutators", len(n.OutputMutators) > 0},
		{"fetch_integrated_models", n.FetchModels},
	} {
		if p.given {
			names = append(names, p.name)
		}
	}
	return names
}

// hasDenyingChecks reports whether the config has a check that may deny a
// request. Forwarding such a request unchecked would be the opposite of what
// was configured.
func hasDenyingChecks(n *config.Config) bool {
	for _, hooks := range [...][]config.Hook{n.BeforeHooks, n.AfterHooks} {
		for _, h := range hooks {
			if h.Denies() {
				return true
			}
		}
	}
	for _, list := range [...][]config.Guardrail{n.InputGuardrails, n.OutputGuardrails} {
		for _, g := range list {
			if g.Denies() || g.Saved != "" { // a saved guardrail may deny
				return true
			}
		}
	}
	return false
}

// guardrailsUnsupported handles a leaf with denying checks.
type guardrailsUnsupported struct{ path string }

// Handle returns an error: nothing is sent unchecked.
func (u guardrailsUnsupported) Handle(context.Context, *Request, *Trail) (*Response, error) {
	return nil, apierr.New(apierr.Unsupported,
		"%s: hooks and guardrails that deny, and saved guardrails, can't be enforced by this version, and the request was not sent unchecked; leave them out or set deny to false", u.path).
		WithParam("x-gateway-config")
}

// noticeHandler announces settings of a leaf without effect.
type noticeHandler struct {
	names []string
	next  Handler
}

// Handle adds the names to the trail and calls the leaf.
func (a noticeHandler) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	for _, name := range a.names {
		t.Note(dialect.ParamChange{Name: name, Outcome: dialect.Ignored})
	}
	return a.next.Handle(ctx, r, t)
}
