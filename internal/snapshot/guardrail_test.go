package snapshot_test

import (
	"errors"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
)

// saved returns a guardrail that can run anywhere. Its hook has the guardrail's id.
func saved(workspace, id, slug string) *snapshot.Guardrail {
	h := &guardrail.Hook{ID: id}
	return &snapshot.Guardrail{Organisation: "o", Workspace: workspace, ID: id, Slug: slug, Before: h, After: h}
}

func TestGuardrailIsFoundByIDBeforeSlug(t *testing.T) {
	s := mustBuild(t, snapshot.Input{Guardrails: []*snapshot.Guardrail{
		saved("", "g1", "wide"), saved("w", "g2", "g1"), saved("w", "g3", "wide"), saved("other", "g4", "far"),
	}})
	for _, tt := range []struct{ workspace, ref, want string }{
		{"w", "g1", "g1"}, // not the guardrail of the workspace with this slug
		{"w", "g2", "g2"},
		{"w", "wide", "g3"},
		{"", "wide", "g1"},
		{"w", "g4", ""},
		{"w", "far", ""},
		{"", "g2", ""},
	} {
		h, err := s.Guardrail(&access.Identity{Organisation: "o", Workspace: tt.workspace}, tt.ref, guardrail.Before)
		switch {
		case tt.want == "" && !apierr.IsNotFound(err):
			t.Errorf("Guardrail(%q) in workspace %q: %v, want not found", tt.ref, tt.workspace, err)
		case tt.want != "" && (err != nil || h.ID != tt.want):
			t.Errorf("Guardrail(%q) in workspace %q: %+v, %v; want %s", tt.ref, tt.workspace, h, err, tt.want)
		}
	}
	if _, err := s.Guardrail(&access.Identity{Organisation: "another", Workspace: ""}, "g1", guardrail.Before); !apierr.IsNotFound(err) {
		t.Errorf("another organisation finds the guardrail: %v", err)
	}
}

func TestDefaultGuardrailsThatCannotRunRefuseRequests(t *testing.T) {
	one := saved("", "g1", "wide")
	one.After, one.AfterErr = nil, errors.New("no such event")
	for _, tt := range []struct {
		name     string
		defaults snapshot.GuardDefaults
		refused  bool
	}{
		{"it runs", snapshot.GuardDefaults{Input: []string{"g1", "g1"}}, false},
		{"it was removed", snapshot.GuardDefaults{Input: []string{"g1", "gone"}}, true},
		{"only its slug is left", snapshot.GuardDefaults{Input: []string{"wide"}}, true},
		{"it cannot run on responses", snapshot.GuardDefaults{Output: []string{"g1"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.defaults.Organisation, tt.defaults.Workspace = "o", "w"
			s := mustBuild(t, snapshot.Input{Guardrails: []*snapshot.Guardrail{one}, GuardDefaults: []snapshot.GuardDefaults{tt.defaults}})
			guards, err := s.Guards(&access.Identity{Organisation: "o", Workspace: "w"})
			if !tt.refused {
				if err != nil || len(guards.Before) != 1 {
					t.Errorf("Guards: %+v, %v; want one hook", guards, err)
				}
				return
			}
			if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Unavailable || e.Code != "default_guardrail_failed" {
				t.Errorf("Guards: %v, want default_guardrail_failed", err)
			}
			if guards, err := s.Guards(&access.Identity{Organisation: "another"}); guards != nil || err != nil {
				t.Errorf("another organisation: %v, %v", guards, err)
			}
		})
	}
}
