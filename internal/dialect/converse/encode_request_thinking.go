package converse

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// minBudget is the smallest thinking budget of Claude. defaultOutput is the
// number of tokens added to it if the client set no limit.
const (
	minBudget     = 1024
	defaultOutput = 4096
)

// thinking holds the thinking settings of a request as a model gets them.
type thinking struct {
	active    bool   // Claude thinks: no forced tools, no sampling
	noLimits  bool   // Nova at high effort: no sampling, no token limit
	maxTokens *int64 // the token limit to send

	mode    llm.ThinkingMode // of Claude's thinking; empty if not sent
	budget  int64            // 0 if not sent
	display string
	effort  string // of output_config, reasoningConfig or reasoning_effort
	old     bool   // the effort needs its beta flag
	off     bool   // the client asked for thinking, which is disabled

	note, drop   string // of FieldThinking
	effortNote   string
	effortFailed bool
	summaryLost  bool
}

// thinkingOf returns the settings for a request and a model.
// https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html
func thinkingOf(r *llm.Request, m model) thinking {
	t := thinking{maxTokens: r.MaxTokens}
	switch {
	case m.claude():
		t.claude(r, m)
	case r.Reasoning.Mode != "" || r.Reasoning.Effort != "":
		t.other(r, m)
	}
	t.summaryLost = r.Reasoning.Summary != "" && t.display == ""
	return t
}

func (t *thinking) claude(r *llm.Request, m model) {
	own := r.Dialect == name || r.Dialect == "messages" // there an effort does not enable thinking
	switch {
	case r.Reasoning.Mode != "":
		t.explicit(r, m)
		if effort := r.Reasoning.Effort; effort != "" {
			t.setEffort(effort, m)
		}
	case r.Reasoning.Effort == "":
		if own || r.Reasoning.Budget == nil {
			return
		}
		t.byBudget(*r.Reasoning.Budget, r, m)
	case r.Reasoning.Effort == "none":
		t.mode = llm.ThinkingDisabled
		if !m.Thinks() {
			t.mode = ""
		}
	case own && len(m.Efforts) > 0:
		t.setEffort(r.Reasoning.Effort, m)
	default:
		t.byEffort(r, m)
	}
	if t.mode == llm.ThinkingEnabled && dialect.LacksThinking(r.Messages, m.accepts) {
		t.turnOff(r)
	}
	t.show(r.Reasoning.Summary, m)
}

// turnOff disables thinking, since the turn has begun without.
func (t *thinking) turnOff(r *llm.Request) {
	t.mode, t.budget, t.active, t.off = llm.ThinkingDisabled, 0, false, true
	t.maxTokens, t.note, t.effortNote = r.MaxTokens, "", ""
	if r.Reasoning.Mode == "" && r.Reasoning.Budget == nil {
		t.mode, t.effortNote = "", dialect.ThinkingDisabled
		return
	}
	t.note = dialect.ThinkingDisabled
}

// explicit handles the mode that the client set.
func (t *thinking) explicit(r *llm.Request, m model) {
	switch mode := r.Reasoning.Mode; {
	case !m.Thinks():
		if mode != llm.ThinkingDisabled {
			t.drop = "thinking"
		}
	case mode == llm.ThinkingAdaptive && !m.Adapts():
		t.spend(budgetFor(r.Reasoning.Effort), r, m)
		t.note = dialect.NoteBudget(t.budget)
	case mode == llm.ThinkingAdaptive, mode == llm.ThinkingDisabled:
		t.mode, t.active = mode, mode == llm.ThinkingAdaptive
	case r.Reasoning.Budget == nil || *r.Reasoning.Budget < 0:
		if m.Adapts() {
			t.mode, t.active, t.note = llm.ThinkingAdaptive, true, "adaptive"
			return
		}
		t.spend(budgetFor(r.Reasoning.Effort), r, m)
		t.note = dialect.NoteBudget(t.budget)
	default:
		t.byBudget(*r.Reasoning.Budget, r, m)
	}
}

// byBudget sets thinking for a budget of the client. Models that have none decide
// how much to think; the budget becomes an effort, unless the client names one.
// https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking
func (t *thinking) byBudget(budget int64, r *llm.Request, m model) {
	switch {
	case budget == 0:
		if m.Thinks() {
			t.mode = llm.ThinkingDisabled
		}
	case m.Thinking == modeldata.AdaptiveThinking && r.Dialect != name:
		t.mode, t.active, t.note = llm.ThinkingAdaptive, true, "adaptive"
		if budget > 0 && r.Reasoning.Effort == "" {
			t.setEffort(dialect.EffortForBudget(budget), m)
		}
	default:
		t.spend(budget, r, m)
	}
}

func budgetFor(effort string) int64 {
	if n, ok := dialect.ThinkingBudget(effort); ok {
		return n
	}
	return minBudget
}

// spend enables thinking with a budget. The token limit covers thinking and
// text, so it must be larger.
func (t *thinking) spend(budget int64, r *llm.Request, m model) {
	if !m.Thinks() {
		t.drop = "thinking"
		return
	}
	n := max(budget, minBudget)
	if limit := r.MaxTokens; limit != nil && *limit <= n {
		if n = *limit - 1; n < minBudget {
			t.drop = "thinking"
			return
		}
	}
	if n != budget {
		t.note = dialect.NoteBudget(n)
	}
	if r.MaxTokens == nil && r.Dialect != name {
		limit := n + defaultOutput
		t.maxTokens = &limit
	}
	t.mode, t.budget, t.active = llm.ThinkingEnabled, n, true
}

// byEffort enables thinking for an effort: adaptive if the model supports it,
// otherwise a share of the token limit.
func (t *thinking) byEffort(r *llm.Request, m model) {
	effort := r.Reasoning.Effort
	switch {
	case !m.Thinks():
		t.effortFailed = true
	case m.Adapts():
		t.mode, t.active = llm.ThinkingAdaptive, true
		t.setEffort(effort, m)
	default:
		if t.spend(share(effort, r.MaxTokens), r, m); t.drop != "" {
			t.drop, t.effortFailed = "", true
			return
		}
		t.note, t.effortNote = "", dialect.NoteBudget(t.budget)
		if len(m.Efforts) > 0 {
			t.setEffort(effort, m)
		}
	}
}

// share returns the budget for an effort within a token limit.
func share(effort string, limit *int64) int64 {
	if limit == nil {
		return budgetFor(effort)
	}
	percent := map[string]int64{"minimal": 10, "low": 20, "medium": 50, "high": 80, "xhigh": 80, "max": 80}[effort]
	return max(minBudget, *limit*percent/100)
}

// setEffort sets the effort in the model's naming.
func (t *thinking) setEffort(effort string, m model) {
	t.effort, t.old = effort, !m.Adapts()
	if len(m.Efforts) == 0 {
		t.effort, t.effortFailed = "", true
		return
	}
	switch {
	case effort == "minimal":
		t.effort = "low"
	case effort == "xhigh" && !slices.Contains(m.Efforts, effort):
		t.effort = "max"
	}
	if (t.effort == "max" || t.effort == "xhigh") && !m.Adapts() {
		t.effort = "high"
	}
	if t.effort != effort && t.effortNote == "" {
		t.effortNote = t.effort
	}
}

func (t *thinking) show(summary string, m model) {
	if !t.active || summary == "" {
		return
	}
	t.display = "summarized"
	if summary == "omitted" {
		t.display = summary
	}
}

// other handles models other than Claude, which only have efforts.
func (t *thinking) other(r *llm.Request, m model) {
	effort := r.Reasoning.Effort
	if r.Reasoning.Mode != "" || effort == "" {
		switch {
		case r.Reasoning.Mode == llm.ThinkingDisabled:
			effort = "none"
		case effort != "":
		case r.Reasoning.Budget != nil:
			effort = dialect.EffortForBudget(*r.Reasoning.Budget)
		default:
			effort = "medium"
		}
	}
	word := map[string]string{"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}[effort]
	switch {
	case m.vendor == "openai" && effort == "none":
		word = "low" // it cannot disable thinking
	case m.nova2(), m.vendor == "openai", m.vendor == "qwen":
	default:
		word = ""
		if effort == "none" {
			return // they do not think by default
		}
	}
	t.effort = word
	t.noLimits = m.nova2() && word == "high"
	switch said := r.Reasoning.Mode != ""; {
	case word == "" && effort != "none" && said:
		t.drop = "thinking"
	case word == "" && effort != "none":
		t.effortFailed = true
	case said:
		t.note = dialect.NoteMember("effort", effort)
	case word != r.Reasoning.Effort && word != "":
		t.effortNote = word
	}
}
