package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// openGuardrails opens the checks, and the compiler of saved guardrails.
func (s *Server) openGuardrails() {
	s.guardrails = checks.New(checks.Services{Client: s.engine.Client, Credentials: s.partnerCredentials, Modules: s.modules})
	s.compiler = newGuardrailCompiler(s.compileGuardrail, s.renewSnapshot)
}

// compileGuardrails starts to compile the saved guardrails of a state, and waits a little
// for them.
func (s *Server) compileGuardrails(p *publication.State) []*guardrailVersion {
	if s.Off[route.Guardrails] {
		return nil
	}
	patience := changeCompiling
	if s.holder.Load() == nil {
		patience = startCompiling
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list := s.compiler.start(p)
	waitFor(ctx, list)
	return list
}

// addGuardrails adds the saved guardrails to the input of a snapshot.
func (s *Server) addGuardrails(in *snapshot.Input, from state) {
	if s.Off[route.Guardrails] {
		return
	}
	for _, v := range from.guardrails {
		in.Guardrails = append(in.Guardrails, s.compiler.published(v, from.stored.FailClosed[v.Organisation]))
	}
	for _, d := range from.stored.GuardDefaults {
		in.GuardDefaults = append(in.GuardDefaults, snapshot.GuardDefaults(d))
	}
}

// modulesOf returns the modules that a guardrail uses.
func modulesOf(g *store.Guardrail, all []publication.Module) (used []publication.Module) {
	for _, m := range all {
		if m.Organisation == g.Organisation && g.Uses(m.GuardrailModule) {
			used = append(used, m)
		}
	}
	return used
}

// compileGuardrail compiles a saved guardrail for both events.
func (s *Server) compileGuardrail(g *guardrailVersion) *snapshot.Guardrail {
	saved := guardrail.Saved{ID: g.Slug, Shared: g.Workspace == "", Checks: g.Checks, Actions: g.Actions,
		Module: func(ref string) (guardrail.Module, error) {
			for _, m := range g.modules {
				if ref == m.ID || ref == m.Slug {
					return guardrail.Module{Sum: sha256.Sum256(m.Code), Code: func() ([]byte, error) { return m.Code, nil }}, nil
				}
			}
			return guardrail.Module{}, fmt.Errorf("%.60q not found", ref)
		}}
	out := &snapshot.Guardrail{Organisation: g.Organisation, Workspace: g.Workspace, ID: g.ID, Slug: g.Slug}
	t := s.guardrails.For(guardrail.Compilation{Organisation: g.Organisation, Admitted: true, Patient: true})
	compile := func(on guardrail.Event) (*guardrail.Hook, error) {
		h, faults := t.CompileSaved(saved, on)
		if len(faults) > 0 {
			return nil, joinFaults(faults)
		}
		h.VersionID = g.VersionID
		return h, nil
	}
	out.Before, out.BeforeErr = compile(guardrail.Before)
	out.After, out.AfterErr = compile(guardrail.After)
	return out
}

func joinFaults(faults []config.FieldError) error {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Path + " " + f.Message
	}
	return errors.New(strings.Join(texts, "; "))
}

// addFeedback stores the feedback of hooks on a request.
func (s *Server) addFeedback(ctx context.Context, e *reqlog.Entry, list []guardrail.FeedbackResult) {
	if s.logs == nil {
		return
	}
	now := time.Now()
	rows := make([]logstore.Feedback, len(list))
	for i, f := range list {
		metadata, structures := make(map[string]string, len(f.Metadata)), make(map[string]json.RawMessage)
		for name, v := range f.Metadata {
			if text, ok := v.(string); ok {
				metadata[name] = text
			} else if raw, err := json.Marshal(v); err == nil {
				structures[name] = raw
			}
		}
		rows[i] = logstore.Feedback{
			ID: reqlog.NewID(now), Organisation: e.Organisation, Workspace: e.Workspace, KeyID: e.KeyID, TraceID: e.TraceID,
			Value: f.Value, Weight: f.Weight, Metadata: metadata, Structures: structures, Created: now, Updated: now,
		}
	}
	if err := s.logs.AddFeedback(ctx, rows); err != nil {
		s.Logger.Warn("feedback of a guardrail could not be stored", "exchange", e.ID.String(), "err", err)
	}
}
