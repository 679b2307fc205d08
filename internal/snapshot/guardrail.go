package snapshot

import (
	"errors"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
)

// Guardrail is a saved guardrail, compiled for requests and for responses.
type Guardrail struct {
	Organisation string // id
	Workspace    string // id; empty for a guardrail of the organisation
	ID, Slug     string

	// Before and After are nil if the guardrail cannot run there; the errors say
	// why. Requests get an *apierr.Error as it is.
	Before, After       *guardrail.Hook
	BeforeErr, AfterErr error
}

// FailClosed returns a copy of g in which every error of a check is a failure.
func (g *Guardrail) FailClosed() *Guardrail {
	out := *g
	for _, h := range [...]**guardrail.Hook{&out.Before, &out.After} {
		if *h != nil {
			strict := **h
			strict.FailClosed = true
			*h = &strict
		}
	}
	return &out
}

// GuardDefaults are the saved guardrails, by id, of all requests of a workspace:
// first those of its organisation. They are those of organisation keys if
// Workspace is empty.
type GuardDefaults struct {
	Organisation, Workspace string
	Input, Output           []string
}

// defaultGuards are compiled GuardDefaults.
type defaultGuards struct {
	guards *exchange.Guards
	err    error // why requests cannot be served
}

// addGuardrails adds the saved guardrails, and the defaults that name them.
func (s *Snapshot) addGuardrails(list []*Guardrail, defaults []GuardDefaults) {
	s.guardrails = make(map[scopedName]*Guardrail, 2*len(list))
	for _, g := range list {
		s.guardrails[scopedName{g.scope(), g.Slug}] = g
	}
	for _, g := range list { // an id is not hidden by the same text as a slug
		s.guardrails[scopedName{g.scope(), g.ID}] = g
	}
	s.guards = make(map[scopedName]*defaultGuards, len(defaults))
	for _, d := range defaults {
		if len(d.Input)+len(d.Output) == 0 {
			continue
		}
		id := &access.Identity{Organisation: d.Organisation, Workspace: d.Workspace}
		out := &defaultGuards{guards: new(exchange.Guards)}
		for _, ref := range d.Input {
			out.guards.Before = s.addDefault(out, out.guards.Before, id, ref, guardrail.Before)
		}
		for _, ref := range d.Output {
			out.guards.After = s.addDefault(out, out.guards.After, id, ref, guardrail.After)
		}
		s.guards[scopedName{d.Organisation, d.Workspace}] = out
	}
}

// addDefault adds a default guardrail to hooks. If it cannot run, the requests that
// it applies to cannot be served: they would pass without it.
func (s *Snapshot) addDefault(out *defaultGuards, hooks []*guardrail.Hook, id *access.Identity, ref string,
	on guardrail.Event) []*guardrail.Hook {
	g := s.findGuardrail(id, ref)
	if g == nil || g.ID != ref {
		out.err = defaultFailed("guardrail %.60q, which applies to all requests, was removed; remove it from the defaults of the organisation or workspace", ref)
		return hooks
	}
	h, err := g.hook(on)
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		out.err = err
		return hooks
	}
	if err != nil {
		out.err = defaultFailed("guardrail %s, which applies to all requests, cannot run: %v; change it, or remove it from the defaults of the organisation or workspace", g.Slug, err)
		return hooks
	}
	if slices.ContainsFunc(hooks, func(of *guardrail.Hook) bool { return of.Is(h) }) {
		return hooks
	}
	rank := guardrail.RankOrganisation
	if g.Workspace != "" {
		rank = guardrail.RankWorkspace
	}
	return append(hooks, h.At(rank))
}

func defaultFailed(format string, args ...any) error {
	return apierr.New(apierr.Unavailable, format, args...).WithCode("default_guardrail_failed")
}

// scope returns the id of the workspace or organisation that the guardrail belongs to.
func (g *Guardrail) scope() string {
	if g.Workspace != "" {
		return g.Workspace
	}
	return g.Organisation
}

// hook returns the guardrail compiled for an event.
func (g *Guardrail) hook(on guardrail.Event) (*guardrail.Hook, error) {
	if on == guardrail.After {
		return g.After, g.AfterErr
	}
	return g.Before, g.BeforeErr
}

// findGuardrail returns the saved guardrail with this id, or else this slug, that an
// identity may use: of its workspace, or else of its organisation. It returns nil for
// none.
func (s *Snapshot) findGuardrail(id *access.Identity, ref string) *Guardrail {
	var found *Guardrail
	for _, scope := range [...]string{id.Workspace, id.Organisation} {
		g := s.guardrails[scopedName{scope, ref}]
		if g != nil && g.ID == ref {
			return g
		}
		if found == nil {
			found = g
		}
	}
	return found
}

// Guardrail returns the saved guardrail with this id or slug that an identity may
// use, as a hook for requests or for responses.
func (s *Snapshot) Guardrail(id *access.Identity, ref string, on guardrail.Event) (*guardrail.Hook, error) {
	g := s.findGuardrail(id, ref)
	if g == nil {
		return nil, apierr.New(apierr.NotFound, "guardrail %.60q not found; save it first",
			ref).WithParam("x-gateway-config").WithCode("unknown_guardrail")
	}
	h, err := g.hook(on)
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "AB01: guardrail %s cannot run: %v", g.Slug, err).WithParam("x-gateway-config").WithCode("AB01")
	}
	return h, nil
}

// Guards returns the hooks of every request of an identity, from its organisation
// and its workspace; nil for none.
func (s *Snapshot) Guards(id *access.Identity) (*exchange.Guards, error) {
	if len(s.guards) == 0 {
		return nil, nil
	}
	d := s.guards[scopedName{id.Organisation, id.Workspace}]
	if d == nil {
		return nil, nil
	}
	return d.guards, d.err
}
