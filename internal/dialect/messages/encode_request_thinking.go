package messages

import (
	"fmt"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// minBudget is the least budget of thinking that models take.
const minBudget = 1024

// thinking is the parameter of that name, and none when the mode is empty.
type thinking struct {
	mode    llm.ThinkingMode
	budget  int64
	display string
}

func (t thinking) active() bool {
	return t.mode == llm.ThinkingEnabled || t.mode == llm.ThinkingAdaptive
}

// plan settles thinking, effort and the length of the answer, which bound each
// other. A client of this dialect is taken at its word.
func (e *requestEncoder) plan() {
	e.maxTokens = e.model.maxTokens
	if e.r.MaxTokens != nil {
		e.maxTokens = *e.r.MaxTokens
	}
	if e.own {
		e.asAsked()
	} else {
		e.fitThinking()
		e.fitEffort()
	}
	if e.thinking.active() && e.emulated() {
		// A forced tool is refused with thinking.
		e.dropThinking()
	}
	if !e.own && e.thinking.mode == llm.ThinkingEnabled && e.unthought() {
		// Calls of tools must come back with the thinking before them.
		e.dropThinking()
	}
	for _, tell := range e.notes {
		tell()
	}
	if !e.own {
		e.fitLength()
		e.fitDisplay()
	}
}

// adapt and drop note fates of thinking, which are told when it is settled.
func (e *requestEncoder) adapt(field llm.Field, note string) {
	e.notes = append(e.notes, func() { e.fates.Adapt(field, note) })
}

func (e *requestEncoder) drop(field llm.Field) {
	e.notes = append(e.notes, func() { e.fates.Drop(field) })
}

func (e *requestEncoder) asAsked() {
	r := &e.r.Reasoning
	e.thinking = thinking{mode: r.Mode, display: r.Summary}
	if r.Budget != nil {
		e.thinking.budget = *r.Budget
	}
	e.effort = r.Effort
}

// fitThinking chooses between a budget and letting the model decide.
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
	if !e.model.thinks {
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
		if !e.model.adaptive {
			e.thinking = thinking{mode: llm.ThinkingEnabled, budget: budgetFor(r.Effort)}
			e.adapt(llm.FieldThinking, fmt.Sprintf("a budget of %d tokens", e.thinking.budget))
		}
	}
}

// fitBudget keeps a budget to the least there is. Models that take none decide
// themselves, as hard as the budget stands for.
func (e *requestEncoder) fitBudget() {
	r := &e.r.Reasoning
	e.thinking.budget = minBudget
	if r.Budget != nil && *r.Budget < 0 || r.Budget == nil && r.Effort != "" {
		e.thinking.budget = budgetFor(r.Effort)
	} else if r.Budget != nil {
		e.thinking.budget = *r.Budget
	}
	if e.model.fixed {
		if r.Effort == "" && r.Budget != nil {
			e.effort = dialect.EffortForBudget(e.thinking.budget)
		}
		e.thinking = thinking{mode: llm.ThinkingAdaptive}
		e.adapt(llm.FieldThinking, "adaptive")
		return
	}
	if e.thinking.budget < minBudget {
		e.thinking.budget = minBudget
		e.adapt(llm.FieldThinking, "a budget of 1024 tokens, the least there is")
	}
}

func budgetFor(effort string) int64 {
	if tokens, ok := dialect.ThinkingBudget(effort); ok {
		return tokens
	}
	tokens, _ := dialect.ThinkingBudget("medium")
	return tokens
}

// fitEffort carries an effort as the model takes it: as a word, as a budget of
// thinking, or not.
func (e *requestEncoder) fitEffort() {
	r := &e.r.Reasoning
	if r.Effort == "" {
		return
	}
	_, known := dialect.ThinkingBudget(r.Effort)
	switch {
	case r.Effort == "none":
		if r.Mode == "" && r.Budget == nil && e.model.thinks {
			e.thinking.mode = llm.ThinkingDisabled
		}
	case !e.model.thinks || !known:
		e.drop(llm.FieldEffort)
	case e.model.adaptive || e.model.effort:
		e.effort = e.effortWord(r.Effort)
		e.thinkFor(r.Effort)
	case r.Mode == "" && r.Budget == nil:
		e.thinkFor(r.Effort)
		e.adapt(llm.FieldEffort, fmt.Sprintf("a budget of %d tokens for thinking", e.thinking.budget))
	case e.thinking.mode == llm.ThinkingEnabled && r.Budget == nil: // the budget stands for it
	default:
		e.drop(llm.FieldEffort)
	}
}

// thinkFor makes the model think for an effort, when nothing else was said of
// thinking.
func (e *requestEncoder) thinkFor(effort string) {
	if e.r.Reasoning.Mode != "" || e.r.Reasoning.Budget != nil {
		return
	}
	e.thinking = thinking{mode: llm.ThinkingAdaptive}
	if !e.model.adaptive {
		e.thinking = thinking{mode: llm.ThinkingEnabled, budget: budgetFor(effort)}
	}
}

// effortWord is the word for an effort that the model knows.
// https://docs.claude.com/en/docs/build-with-claude/effort
func (e *requestEncoder) effortWord(effort string) string {
	word := effort
	top := effort == "xhigh" || effort == "max"
	switch {
	case effort == "minimal":
		word = "low"
	case top && (e.model.effort || e.model.calm && e.thinking.mode == llm.ThinkingDisabled):
		word = "high"
	case effort == "xhigh" && !e.model.xhigh:
		word = "max"
	}
	if word != effort {
		e.adapt(llm.FieldEffort, word)
	}
	return word
}

// dropThinking leaves thinking to the model, which then does not.
func (e *requestEncoder) dropThinking() {
	field := llm.FieldThinking
	if e.r.Reasoning.Mode == "" && e.r.Reasoning.Budget == nil {
		field = llm.FieldEffort
	}
	e.notes = nil
	e.drop(field)
	e.thinking = thinking{}
	if e.model.adaptive {
		e.thinking.mode = llm.ThinkingDisabled
	}
	if !e.model.effort || field == llm.FieldEffort {
		e.effort = ""
	}
}

// unthought reports whether the client asks to go on after calls of tools that
// have lost their thinking.
func (e *requestEncoder) unthought() bool {
	list := e.r.Messages
	last := len(list) - 1
	for last >= 0 && list[last].Role != llm.Assistant {
		last--
	}
	if last < 0 || last == len(list)-1 || !hasResult(list[last+1:]) {
		return false
	}
	for _, p := range list[last].Parts {
		if t, ok := p.(llm.Thinking); ok && usable(t) {
			return false
		}
	}
	return true
}

func hasResult(list []llm.Message) bool {
	for _, m := range list {
		for _, p := range m.Parts {
			if _, ok := p.(llm.ToolResult); ok {
				return true
			}
		}
	}
	return false
}

// usable reports whether the vendor's models take back t.
func usable(t llm.Thinking) bool { return t.Signature.Vendor == vendor && t.Signature.Value != "" }

// fitLength keeps the answer within what the model can give, and the budget of
// thinking within the answer: what was asked is an answer besides the thinking.
func (e *requestEncoder) fitLength() {
	asked := e.maxTokens
	if e.thinking.mode == llm.ThinkingEnabled && e.thinking.budget >= e.maxTokens {
		e.maxTokens += e.thinking.budget
	}
	if known := e.model != foreign; known && e.maxTokens > e.model.maxTokens {
		e.maxTokens = e.model.maxTokens
	}
	if e.maxTokens != asked && e.r.MaxTokens != nil {
		e.fates.Adapt(llm.FieldMaxTokens, fmt.Sprint(e.maxTokens))
	}
	if e.thinking.mode == llm.ThinkingEnabled && e.thinking.budget >= e.maxTokens {
		e.thinking.budget = e.maxTokens - 1
		if e.r.Reasoning.Budget != nil {
			e.fates.Adapt(llm.FieldThinking, fmt.Sprintf("a budget of %d tokens", e.thinking.budget))
		}
	}
}

// fitDisplay asks for thinking to be told, which newer models keep to themselves
// otherwise.
func (e *requestEncoder) fitDisplay() {
	asked := e.r.Reasoning.Summary
	switch {
	case !e.thinking.active():
		if asked != "" {
			e.fates.Drop(llm.FieldSummary)
		}
	case asked == "omitted" || asked == "summarized":
		e.thinking.display = asked
	case asked != "":
		e.thinking.display = "summarized"
		e.fates.Adapt(llm.FieldSummary, "summarized")
	case e.thinking.mode == llm.ThinkingAdaptive:
		e.thinking.display = "summarized"
	}
}

// reasoning writes how much to think.
func (e *requestEncoder) reasoning() {
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
