package messages

import (
	"cmp"
	"fmt"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// minBudget is the smallest thinking budget that models accept.
const minBudget = 1024

// thinking holds the parameter of that name. An empty mode means none.
type thinking struct {
	mode    llm.ThinkingMode
	budget  int64
	display string
}

func (t thinking) active() bool {
	return t.mode == llm.ThinkingEnabled || t.mode == llm.ThinkingAdaptive
}

// plan sets thinking, effort and max_tokens, which limit each other. Settings
// of clients of this dialect are not changed.
func (e *requestEncoder) plan() {
	e.maxTokens = cmp.Or(e.model.MaxOutput, e.model.DefaultOutput)
	if e.r.MaxTokens != nil {
		e.maxTokens = *e.r.MaxTokens
	}
	if e.own {
		e.copySettings()
	} else {
		e.fitThinking()
		e.fitEffort()
	}
	if e.thinking.active() && e.emulated() {
		// A forced tool is rejected together with thinking.
		e.dropThinking()
	}
	if e.thinking.mode == llm.ThinkingEnabled && (!e.own || isClaude(e.to)) && dialect.LacksThinking(e.r.Messages, usable) {
		e.turnOffThinking()
	}
	for _, tell := range e.notes {
		tell()
	}
	if !e.own {
		e.fitLength()
		e.fitDisplay()
	}
}

// adapt and drop collect changes to thinking, which are recorded once it is
// settled.
func (e *requestEncoder) adapt(field llm.Field, note string) {
	e.notes = append(e.notes, func() { e.changes.Adapt(field, note) })
}

func (e *requestEncoder) drop(field llm.Field) {
	e.notes = append(e.notes, func() { e.changes.Drop(field) })
}

// copySettings takes the settings of a client of this dialect unchanged.
func (e *requestEncoder) copySettings() {
	r := &e.r.Reasoning
	e.thinking = thinking{mode: r.Mode, display: r.Summary}
	if r.Budget != nil {
		e.thinking.budget = *r.Budget
	}
	e.effort = r.Effort
}

// fitThinking chooses between a budget and adaptive thinking.
// https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking
func (e *requestEncoder) fitThinking() {
	r := &e.r.Reasoning
	mode := r.Mode
	switch {
	case mode == llm.ThinkingEnabled && r.Budget != nil && *r.Budget == 0:
		mode = llm.ThinkingDisabled
	case mode == "" && r.Budget != nil && *r.Budget == 0:
		mode = llm.ThinkingDisabled
	case mode == "" && r.Budget != nil && *r.Budget < 0:
		mode = llm.ThinkingAdaptive
	case mode == "" && r.Budget != nil:
		mode = llm.ThinkingEnabled
	case mode == "":
		return
	}
	if !e.model.Thinks() {
		if mode != llm.ThinkingDisabled {
			e.drop(llm.FieldThinking)
		}
		return
	}
	e.thinking = thinking{mode: mode}
	switch mode {
	case llm.ThinkingEnabled:
		e.fitBudget()
	case llm.ThinkingAdaptive:
		if !e.model.Adapts() {
			e.thinking = thinking{mode: llm.ThinkingEnabled, budget: budgetFor(r.Effort)}
			e.adapt(llm.FieldThinking, dialect.NoteBudget(e.thinking.budget))
		}
	}
}

// fitBudget raises a budget to the minimum. For models without budgets it is
// converted to an effort.
func (e *requestEncoder) fitBudget() {
	r := &e.r.Reasoning
	e.thinking.budget = minBudget
	if r.Budget != nil && *r.Budget < 0 || r.Budget == nil && r.Effort != "" {
		e.thinking.budget = budgetFor(r.Effort)
	} else if r.Budget != nil {
		e.thinking.budget = *r.Budget
	}
	if e.model.Thinking == modeldata.AdaptiveThinking {
		if r.Effort == "" && r.Budget != nil {
			e.effort = dialect.EffortForBudget(e.thinking.budget)
		}
		e.thinking = thinking{mode: llm.ThinkingAdaptive}
		e.adapt(llm.FieldThinking, "adaptive")
		return
	}
	if e.thinking.budget < minBudget {
		e.thinking.budget = minBudget
		e.adapt(llm.FieldThinking, dialect.NoteMinimum(dialect.NoteBudget(1024)))
	}
}

func budgetFor(effort string) int64 {
	if tokens, ok := dialect.ThinkingBudget(effort); ok {
		return tokens
	}
	tokens, _ := dialect.ThinkingBudget("medium")
	return tokens
}

// fitEffort converts an effort to what the model supports: a named effort, a
// thinking budget, or nothing.
func (e *requestEncoder) fitEffort() {
	r := &e.r.Reasoning
	if r.Effort == "" {
		return
	}
	_, known := dialect.ThinkingBudget(r.Effort)
	switch {
	case r.Effort == "none":
		if r.Mode == "" && r.Budget == nil && e.model.Thinks() {
			e.thinking.mode = llm.ThinkingDisabled
		}
	case !e.model.Thinks() || !known:
		e.drop(llm.FieldEffort)
	case len(e.model.Efforts) > 0:
		e.effort = e.effortWord(r.Effort)
		e.thinkFor(r.Effort)
	case r.Mode == "" && r.Budget == nil:
		e.thinkFor(r.Effort)
		e.adapt(llm.FieldEffort, dialect.NoteBudget(e.thinking.budget))
	case e.thinking.mode == llm.ThinkingEnabled && r.Budget == nil: // the budget replaces it
	default:
		e.drop(llm.FieldEffort)
	}
}

// thinkFor enables thinking for an effort if the request has no other thinking
// settings.
func (e *requestEncoder) thinkFor(effort string) {
	if e.r.Reasoning.Mode != "" || e.r.Reasoning.Budget != nil {
		return
	}
	e.thinking = thinking{mode: llm.ThinkingAdaptive}
	if !e.model.Adapts() {
		e.thinking = thinking{mode: llm.ThinkingEnabled, budget: budgetFor(effort)}
	}
}

// effortWord returns the name of the effort that the model supports.
// https://docs.claude.com/en/docs/build-with-claude/effort
func (e *requestEncoder) effortWord(effort string) string {
	word := effort
	top := effort == "xhigh" || effort == "max"
	switch {
	case effort == "minimal":
		word = "low"
	case top && (e.effortIsBeta() || e.model.TopEffortThinks && e.thinking.mode == llm.ThinkingDisabled):
		word = "high"
	case effort == "xhigh" && !slices.Contains(e.model.Efforts, effort):
		word = "max"
	}
	if word != effort {
		e.adapt(llm.FieldEffort, word)
	}
	return word
}

// turnOffThinking disables thinking, since the turn has begun without.
func (e *requestEncoder) turnOffThinking() {
	if !e.own {
		e.dropThinking()
		return
	}
	e.thinking, e.noThinking = thinking{mode: llm.ThinkingDisabled}, true
	e.adapt(llm.FieldThinking, dialect.ThinkingDisabled)
}

// dropThinking disables thinking.
func (e *requestEncoder) dropThinking() {
	field := llm.FieldThinking
	if e.r.Reasoning.Mode == "" && e.r.Reasoning.Budget == nil {
		field = llm.FieldEffort
	}
	e.notes = nil
	e.drop(field)
	e.thinking, e.noThinking = thinking{}, true
	if e.model.Adapts() {
		e.thinking.mode = llm.ThinkingDisabled
	}
	if !e.effortIsBeta() || field == llm.FieldEffort {
		e.effort = ""
	}
}

// usable reports whether the vendor's models accept t.
func usable(t llm.Thinking) bool { return t.Signature.Vendor == vendor && t.Signature.Value != "" }

// fitLength limits max_tokens to the model's maximum and the thinking budget to
// max_tokens. The client's limit is for the text, so the budget is added to it.
func (e *requestEncoder) fitLength() {
	asked := e.maxTokens
	if e.thinking.mode == llm.ThinkingEnabled && e.thinking.budget >= e.maxTokens {
		e.maxTokens += e.thinking.budget
	}
	if limit := e.model.MaxOutput; limit > 0 && e.maxTokens > limit {
		e.maxTokens = limit
	}
	if e.maxTokens != asked && e.r.MaxTokens != nil {
		e.changes.Adapt(llm.FieldMaxTokens, fmt.Sprint(e.maxTokens))
	}
	if e.thinking.mode == llm.ThinkingEnabled && e.thinking.budget >= e.maxTokens {
		e.thinking.budget = e.maxTokens - 1
		if e.r.Reasoning.Budget != nil {
			e.changes.Adapt(llm.FieldThinking, dialect.NoteBudget(e.thinking.budget))
		}
	}
}

// fitDisplay requests summaries of thinking, which newer models leave out by
// default.
func (e *requestEncoder) fitDisplay() {
	asked := e.r.Reasoning.Summary
	switch {
	case !e.thinking.active():
		if asked != "" {
			e.changes.Drop(llm.FieldSummary)
		}
	case asked == "omitted" || asked == "summarized":
		e.thinking.display = asked
	case asked != "":
		e.thinking.display = "summarized"
		e.changes.Adapt(llm.FieldSummary, "summarized")
	case e.thinking.mode == llm.ThinkingAdaptive:
		e.thinking.display = "summarized"
	}
}

// reasoning writes the thinking parameter.
func (e *requestEncoder) reasoning() {
	if !e.own {
		e.changes.DropThinking()
	}
	if e.thinking.mode == "" {
		return
	}
	e.Name("thinking")
	e.Open('{')
	e.text("type", string(e.thinking.mode))
	if e.thinking.mode == llm.ThinkingEnabled && (!e.own || e.r.Reasoning.Budget != nil) {
		e.Name("budget_tokens")
		e.Int(e.thinking.budget)
	}
	e.text("display", e.thinking.display)
	if e.own {
		for _, m := range e.r.Reasoning.Extra {
			e.Key(m.Name)
			e.Raw(m.Value)
		}
	}
	e.Close('}')
}
