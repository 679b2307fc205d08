package snapshot

import (
	"slices"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline"
)

// Guardrail is a saved guardrail, compiled for requests and for responses.
type Guardrail struct {
	Organisation string // id
	Workspace    string // id; empty for a guardrail of the organisation
	ID, Slug     string

	// Before and After are nil if the guardrail cannot run there; the errors say
	// why.
	Before, After       *guardrail.Hook
	BeforeErr, AfterErr error
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
	guards *pipeline.Guards
	err    error // why requests cannot be served
}

// addGuardrails adds the saved guardrails, and the defaults that name them.
func (s *Snapshot) addGuardrails(list []*Guardrail, defaults []GuardDefaults) {
	s.guardrails = make(map[scopedName]*Guardrail, 2*len(list))
	for _, g := range list {
		scope := g.Workspace
		if scope == "" {
			scope = g.Organisation
		}
		s.guardrails[scopedName{scope, g.ID}], s.guardrails[scopedName{scope, g.Slug}] = g, g
	}
	s.guards = make(map[scopedName]*defaultGuards, len(defaults))
	for _, d := range defaults {
		if len(d.Input)+len(d.Output) == 0 {
			continue
		}
		id := &access.Identity{Organisation: d.Organisation, Workspace: d.Workspace}
		out := &defaultGuards{guards: new(pipeline.Guards)}
		for _, ref := range d.Input {
			out.guards.Before = s.addDefault(out, out.guards.Before, id, ref, guardrail.Before)
		}
		for _, ref := range d.Output {
			out.guards.After = s.addDefault(out, out.guards.After, id, ref, guardrail.After)
		}
		s.guards[scopedName{d.Organisation, d.Workspace}] = out
	}
}

// addDefault adds a default guardrail to hooks. One that was archived since is
// left out.
func (s *Snapshot) addDefault(out *defaultGuards, hooks []*guardrail.Hook, id *access.Identity, ref string, on guardrail.Event) []*guardrail.Hook {
	h, err := s.Guardrail(id, ref, on)
	switch {
	case apierr.IsNotFound(err):
		return hooks
	case err != nil:
		out.err = err
		return hooks
	case slices.Contains(hooks, h):
		return hooks
	}
	return append(hooks, h)
}

// Guardrail returns the saved guardrail with this id or slug that an identity may
// use, as a hook for requests or for responses.
func (s *Snapshot) Guardrail(id *access.Identity, ref string, on guardrail.Event) (*guardrail.Hook, error) {
	g, ok := s.guardrails[scopedName{id.Workspace, ref}]
	if !ok || id.Workspace == "" {
		g, ok = s.guardrails[scopedName{id.Organisation, ref}]
	}
	if !ok {
		return nil, apierr.New(apierr.NotFound, "guardrail %.60q not found; save it first", ref).WithParam("x-gateway-config").WithCode("unknown_guardrail")
	}
	h, err := g.Before, g.BeforeErr
	if on == guardrail.After {
		h, err = g.After, g.AfterErr
	}
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "AB01: guardrail %s cannot run: %v", g.Slug, err).WithParam("x-gateway-config").WithCode("AB01")
	}
	return h, nil
}

// Guards returns the hooks of every request of an identity, from its organisation
// and its workspace; nil for none.
func (s *Snapshot) Guards(id *access.Identity) (*pipeline.Guards, error) {
	if len(s.guards) == 0 {
		return nil, nil
	}
	d := s.guards[scopedName{id.Organisation, id.Workspace}]
	if d == nil {
		return nil, nil
	}
	return d.guards, d.err
}
