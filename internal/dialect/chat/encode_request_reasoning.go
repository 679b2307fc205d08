package chat

import (
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// thinking writes the thinking settings in the provider's format.
func (e *requestEncoder) thinking() {
	r := &e.r.Reasoning
	if r.Summary != "" && e.r.Dialect != dialectName {
		e.changes.Drop(llm.FieldSummary)
	}
	if e.r.Dialect == dialectName && e.profile.Effort != dialect.EffortObject {
		e.clientThinking()
		return
	}
	e.changes.DropThinking()
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

// clientThinking writes the settings as a client of this dialect sent them.
func (e *requestEncoder) clientThinking() {
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

// nonReasoningModel records the settings that models reject which do not think on
// demand.
func (e *requestEncoder) nonReasoningModel() {
	r := &e.r.Reasoning
	if r.Mode != "" && r.Mode != llm.ThinkingDisabled {
		e.changes.Drop(llm.FieldThinking)
	}
	if r.Effort != "" {
		e.changes.Drop(llm.FieldEffort)
	}
}

// requestedEffort returns the requested effort: the mode and the budget win
// over the named effort. It is empty if the model decides.
func (e *requestEncoder) requestedEffort() string {
	r := &e.r.Reasoning
	switch {
	case r.Mode == llm.ThinkingDisabled:
		return "none"
	case r.Budget != nil:
		return dialect.EffortForBudget(*r.Budget)
	}
	return r.Effort
}

// word returns the provider's name for an effort, or for the nearest that the
// model accepts; empty if it has none.
func (e *requestEncoder) word(effort string) string {
	if word, ok := e.profile.Efforts[effort]; ok {
		return word
	}
	return e.model.Effort(effort)
}

func (e *requestEncoder) effortWord() {
	r := &e.r.Reasoning
	effort := e.requestedEffort()
	word := e.word(effort)
	field := llm.FieldEffort
	if r.Mode != "" {
		field = llm.FieldThinking
	}
	switch {
	case word == "" && effort == "": // thinking as the model sees fit is the default
		e.changes.Adapt(llm.FieldThinking, dialect.ModelDecides)
		return
	case word == "":
		e.changes.Drop(field)
		return
	case r.Mode != "":
		e.changes.Adapt(field, dialect.NoteMember("reasoning_effort", word))
	case word != effort:
		e.changes.Adapt(field, word)
	}
	e.textMember("reasoning_effort", word)
}

// thinkingObject writes the thinking object, and the effort if it is known.
func (e *requestEncoder) thinkingObject() {
	r := &e.r.Reasoning
	mode := "enabled"
	if e.requestedEffort() == "none" {
		mode = "disabled"
	}
	e.Name("thinking")
	e.Open('{')
	e.textMember("type", mode)
	if r.Budget != nil && mode == "enabled" && e.profile.Budget {
		budget := e.fitBudget()
		e.optionalInt("budget_tokens", &budget)
	}
	e.Close('}')
	word := ""
	if mode == "enabled" && e.profile.Effort == dialect.EffortThinking {
		word = e.word(e.requestedEffort())
		e.optionalText("reasoning_effort", word)
	}
	switch {
	case r.Mode == "" && word != r.Effort:
		e.changes.Adapt(llm.FieldEffort, dialect.NoteMember("thinking", mode))
	case r.Mode == llm.ThinkingAdaptive, r.Budget != nil && !e.profile.Budget:
		e.changes.Adapt(llm.FieldThinking, mode)
	}
}

// leastBudget is the smallest thinking budget of some models behind OpenRouter.
const leastBudget = 1024

// fitBudget returns the thinking budget, limited to leave tokens for the
// answer; zero without one.
func (e *requestEncoder) fitBudget() int64 {
	asked := e.r.Reasoning.Budget
	if asked == nil || *asked <= 0 {
		return 0
	}
	n := dialect.FitBudget(*asked, e.r.MaxTokens)
	if n != *asked {
		e.changes.Adapt(llm.FieldThinking, dialect.NoteBudget(n))
	}
	return n
}

// effortObject writes OpenRouter's object.
// https://openrouter.ai/docs/use-cases/reasoning-tokens
func (e *requestEncoder) effortObject() {
	r := &e.r.Reasoning
	if r.Mode == "" && r.Effort == "" {
		return
	}
	if n := r.Budget; n != nil && *n >= leastBudget && dialect.FitBudget(*n, e.r.MaxTokens) < leastBudget {
		e.changes.Drop(llm.FieldThinking) // no room for it
		return
	}
	budget := e.fitBudget()
	e.Name("reasoning")
	e.Open('{')
	switch {
	case r.Mode == llm.ThinkingDisabled:
		e.Name("enabled")
		e.Bool(false)
	case budget > 0:
		e.intMember("max_tokens", budget)
	case r.Effort != "":
		e.textMember("effort", r.Effort)
	default:
		e.Name("enabled")
		e.Bool(true)
	}
	e.Close('}')
}
