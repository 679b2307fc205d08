package chat

import (
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// thinking writes how much the model is to think in the provider's manner.
func (e *requestEncoder) thinking() {
	r := &e.r.Reasoning
	if r.Summary != "" && e.r.Dialect != own {
		e.fates.Drop(llm.FieldSummary)
	}
	if e.r.Dialect == own && e.profile.Effort != dialect.EffortObject {
		e.asSent()
		return
	}
	if r.Mode == "" && r.Effort == "" {
		return
	}
	if !e.takesEffort() && e.profile.Effort == dialect.EffortWord {
		e.nonReasoningModel()
		return
	}
	switch e.profile.Effort {
	case dialect.EffortWord:
		e.effortWord()
	case dialect.EffortObject:
		e.effortObject()
	default:
		e.thinkingObject()
	}
}

// asSent writes what a client of the dialect wrote.
func (e *requestEncoder) asSent() {
	r := &e.r.Reasoning
	if r.Mode != "" {
		e.Name("thinking")
		e.Open('{')
		e.textMember("type", string(r.Mode))
		e.optionalInt("budget_tokens", r.Budget)
		e.optionalText("display", r.Summary)
		e.extra(r.Extra)
		e.Close('}')
	}
	e.optionalText("reasoning_effort", r.Effort)
}

// nonReasoningModel is for models that do not think on demand. An effort that the
// client named reaches the vendor, which says so.
func (e *requestEncoder) nonReasoningModel() {
	r := &e.r.Reasoning
	switch {
	case r.Mode != "":
		if r.Mode != llm.ThinkingDisabled {
			e.fates.Drop(llm.FieldThinking)
		}
		if r.Effort != "" {
			e.fates.Drop(llm.FieldEffort)
		}
	case e.profile.Vendor:
		e.textMember("reasoning_effort", r.Effort)
	default:
		e.fates.Drop(llm.FieldEffort)
	}
}

// wanted is the effort that the request asks for, in neutral words: the mode
// and the budget win over the word. It is empty where the model is to decide.
func (e *requestEncoder) wanted() string {
	r := &e.r.Reasoning
	switch {
	case r.Mode == llm.ThinkingDisabled:
		return "none"
	case r.Budget != nil:
		return dialect.EffortForBudget(*r.Budget)
	}
	return r.Effort
}

// word returns the provider's word for an effort, empty when it has none.
func (e *requestEncoder) word(effort string) string {
	if word, ok := e.profile.Efforts[effort]; ok {
		return word
	}
	return effort
}

func (e *requestEncoder) effortWord() {
	r := &e.r.Reasoning
	effort := e.wanted()
	word := e.word(effort)
	field := llm.FieldEffort
	if r.Mode != "" {
		field = llm.FieldThinking
	}
	switch {
	case word == "" && effort == "": // to think as it sees fit is what they do
		return
	case word == "":
		e.fates.Drop(field)
		return
	case r.Mode != "":
		e.fates.Adapt(field, "reasoning_effort "+word)
	case word != effort:
		e.fates.Adapt(field, word)
	}
	e.textMember("reasoning_effort", word)
}

// thinkingObject writes thinking, and the effort beside it where it is known.
func (e *requestEncoder) thinkingObject() {
	r := &e.r.Reasoning
	mode := "enabled"
	if e.wanted() == "none" {
		mode = "disabled"
	}
	e.Name("thinking")
	e.Open('{')
	e.textMember("type", mode)
	if r.Budget != nil && mode == "enabled" && e.profile.Budget {
		e.optionalInt("budget_tokens", r.Budget)
	}
	e.Close('}')
	word := ""
	if mode == "enabled" && e.profile.Effort == dialect.EffortThinking {
		word = e.word(e.wanted())
		e.optionalText("reasoning_effort", word)
	}
	switch {
	case r.Mode == "" && word != r.Effort:
		e.fates.Adapt(llm.FieldEffort, "thinking "+mode)
	case r.Mode == llm.ThinkingAdaptive, r.Budget != nil && !e.profile.Budget:
		e.fates.Adapt(llm.FieldThinking, mode)
	}
}

// effortObject writes OpenRouter's object.
// https://openrouter.ai/docs/use-cases/reasoning-tokens
func (e *requestEncoder) effortObject() {
	r := &e.r.Reasoning
	if r.Mode == "" && r.Effort == "" {
		return
	}
	e.Name("reasoning")
	e.Open('{')
	switch {
	case r.Mode == llm.ThinkingDisabled:
		e.Name("enabled")
		e.Bool(false)
	case r.Budget != nil && *r.Budget > 0:
		e.intMember("max_tokens", *r.Budget)
	case r.Effort != "":
		e.textMember("effort", r.Effort)
	default:
		e.Name("enabled")
		e.Bool(true)
	}
	e.Close('}')
}
