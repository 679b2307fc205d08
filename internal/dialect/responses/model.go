package responses

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
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

// family is the family of a model, as far as it follows from the name.
type family uint8

const (
	unknown   family = iota
	plain            // does not think, and rejects reasoning settings
	thinking         // thinks, and thinking can be disabled
	thinkLess        // thinks at least minimally
	thinkLow         // thinks at least at low effort
)

// familyOf returns the family for a model's name. Names of deployments reveal
// nothing.
// https://platform.openai.com/docs/guides/reasoning
func familyOf(model string) family {
	if i := strings.LastIndexAny(model, "/"); i >= 0 {
		model = model[i+1:]
	}
	model = strings.TrimPrefix(model, "openai.")
	switch {
	case strings.HasPrefix(model, "gpt-4"), strings.HasPrefix(model, "gpt-3"), strings.HasPrefix(model, "chatgpt-"), strings.Contains(model, "-chat"):
		return plain
	case strings.HasPrefix(model, "gpt-oss"), strings.HasPrefix(model, "codex-"):
		return thinkLow
	case model == "gpt-5", strings.HasPrefix(model, "gpt-5-codex"):
		return thinkLess
	case strings.HasPrefix(model, "gpt-5-"):
		return thinkLess
	case strings.HasPrefix(model, "gpt-"):
		return thinking
	case len(model) > 1 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9':
		return thinkLow
	}
	return unknown
}

// reasons reports whether the response is expected to contain thinking.
func (s *requestEncoder) reasons() bool {
	switch familyOf(s.to.Model) {
	case plain:
		return false
	case unknown:
		r := &s.r.Reasoning
		return r.Mode == llm.ThinkingEnabled || r.Mode == llm.ThinkingAdaptive || r.Effort != "" && r.Effort != "none"
	}
	return true
}

// writeReasoning writes the reasoning settings: effort, summary and those of
// clients of this dialect.
func (s *requestEncoder) writeReasoning() {
	effort, summary := s.effort(), s.summary()
	var extra []llm.Member
	if s.same {
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

// effort returns the effort to send.
func (s *requestEncoder) effort() string {
	r := &s.r.Reasoning
	switch {
	case s.same:
		return r.Effort
	case familyOf(s.to.Model) == plain:
		s.dropThinking()
		return ""
	case r.Mode == llm.ThinkingDisabled:
		return s.least()
	case r.Mode == llm.ThinkingEnabled && r.Budget != nil:
		effort := dialect.EffortForBudget(*r.Budget)
		s.changes.Adapt(llm.FieldThinking, "reasoning.effort "+effort)
		return effort
	}
	return r.Effort
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
	word := ""
	switch familyOf(s.to.Model) {
	case thinking:
		word = "none"
	case thinkLess:
		word = "minimal"
	case thinkLow:
		word = "low"
	default:
		s.changes.Drop(llm.FieldThinking)
		return ""
	}
	s.changes.Adapt(llm.FieldThinking, "reasoning.effort "+word)
	return word
}

func (s *requestEncoder) summary() string {
	word := s.r.Reasoning.Summary
	switch {
	case s.same:
		return word
	case familyOf(s.to.Model) == plain, word == "omitted":
		return ""
	case word == "summarized":
		s.changes.Adapt(llm.FieldSummary, "reasoning.summary auto")
		return "auto"
	}
	return word
}
