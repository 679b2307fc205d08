package responses

import (
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// usualProfile is the profile of most providers.
var usualProfile dialect.ResponsesProfile

func profileOf(to dialect.RequestTarget) *dialect.ResponsesProfile {
	return cmp.Or(to.Responses, &usualProfile)
}

// vendorOf returns the vendor of the signatures that a target's models make and
// accept: the dialect's vendor, or the provider itself.
func vendorOf(to dialect.RequestTarget) llm.Vendor {
	if profileOf(to).Vendor {
		return llm.OpenAI
	}
	return llm.Vendor(to.Provider)
}

// reasons reports whether the response is expected to contain thinking. If
// nothing is known of the model, as of a deployment, the settings decide.
func (s *requestEncoder) reasons() bool {
	if s.model.HasRow() {
		return s.model.Thinks()
	}
	r := &s.r.Reasoning
	return r.Mode == llm.ThinkingEnabled || r.Mode == llm.ThinkingAdaptive || r.Effort != "" && r.Effort != "none"
}

// plain reports whether the model is known not to think: it rejects reasoning
// settings.
func (s *requestEncoder) plain() bool { return s.model.HasRow() && !s.model.Thinks() }

// writeReasoning writes the reasoning settings: effort, summary and those of
// clients of this dialect.
func (s *requestEncoder) writeReasoning() {
	effort, summary := s.effort(), s.summary()
	s.samples = s.same || !profileOf(s.to).Vendor || s.model.Samples(effort)
	var extra []llm.Member
	if !s.same {
		s.changes.DropThinking()
	} else {
		extra = s.r.Reasoning.Extra
		if memberOf(extra, withEncrypted) != nil {
			extra = removeMember(extra, withEncrypted)
		}
	}
	if effort == "" && summary == "" && len(extra) == 0 {
		return
	}
	s.b.Name("reasoning")
	s.b.Open('{')
	s.name("effort", effort)
	s.name("summary", summary)
	for _, m := range extra {
		s.b.Key(m.Name)
		s.b.Raw(m.Value)
	}
	s.b.Close('}')
}

func removeMember(list []llm.Member, name string) []llm.Member {
	var out []llm.Member
	for _, m := range list {
		if m.Name != name {
			out = append(out, m)
		}
	}
	return out
}

// effort returns the effort to send: the nearest that the model accepts.
func (s *requestEncoder) effort() string {
	r := &s.r.Reasoning
	switch {
	case s.same:
		return r.Effort
	case s.plain():
		s.dropThinking()
		return ""
	case r.Mode == llm.ThinkingDisabled:
		return s.least()
	case r.Mode == llm.ThinkingEnabled && r.Budget != nil:
		effort := s.model.Effort(dialect.EffortForBudget(*r.Budget))
		s.changes.Adapt(llm.FieldThinking, dialect.NoteMember("reasoning.effort", effort))
		return effort
	}
	if r.Effort == "" && (r.Mode == llm.ThinkingAdaptive || r.Mode == llm.ThinkingEnabled) {
		s.changes.Adapt(llm.FieldThinking, dialect.ModelDecides)
	}
	effort := s.model.Effort(r.Effort)
	if effort != r.Effort {
		s.changes.Adapt(llm.FieldEffort, dialect.NoteMember("reasoning.effort", effort))
	}
	return effort
}

// dropThinking records the settings that a model without thinking does not
// support.
func (s *requestEncoder) dropThinking() {
	r := &s.r.Reasoning
	if r.Mode == llm.ThinkingEnabled || r.Mode == llm.ThinkingAdaptive {
		s.changes.Drop(llm.FieldThinking)
	}
	if r.Effort != "" && r.Effort != "none" {
		s.changes.Drop(llm.FieldEffort)
	}
	if r.Summary != "" && r.Summary != "omitted" {
		s.changes.Drop(llm.FieldSummary)
	}
}

// least returns the effort nearest to none.
func (s *requestEncoder) least() string {
	if !s.model.HasRow() {
		s.changes.Drop(llm.FieldThinking)
		return ""
	}
	effort := s.model.Effort("none")
	s.changes.Adapt(llm.FieldThinking, dialect.NoteMember("reasoning.effort", effort))
	return effort
}

func (s *requestEncoder) summary() string {
	word := s.r.Reasoning.Summary
	switch {
	case s.same:
		return word
	case s.plain(), word == "omitted":
		return ""
	case word == "summarized":
		s.changes.Adapt(llm.FieldSummary, dialect.NoteMember("reasoning.summary", "auto"))
		return "auto"
	}
	return word
}
