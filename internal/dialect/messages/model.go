package messages

import (
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/model/modeldata"
)

// usualProfile is the profile of the vendor's own API.
var usualProfile dialect.MessagesProfile

func profileOf(to dialect.RequestTarget) *dialect.MessagesProfile {
	return cmp.Or(to.Messages, &usualProfile)
}

// foreign describes models of other vendors that are offered in this protocol.
var foreign = modeldata.Model{DefaultOutput: 8192, Thinking: modeldata.BudgetThinking}

// modelOf returns what is known of a model.
func modelOf(name string) *modeldata.Model {
	if m := modeldata.Anthropic.Of(name); m.HasRow() {
		return m
	}
	return &foreign
}

// isClaude reports whether the target's model is of this vendor, wherever it is hosted.
func isClaude(to dialect.RequestTarget) bool { return modeldata.Anthropic.Of(to.KnownModel()).HasRow() }

// effortIsBeta reports whether an effort, next to a budget for thinking, is a
// beta feature of the model.
// https://docs.claude.com/en/docs/build-with-claude/effort
func (e *requestEncoder) effortIsBeta() bool { return len(e.model.Efforts) > 0 && !e.model.Adapts() }
