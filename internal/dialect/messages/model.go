package messages

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
)

// usualProfile is the profile of the vendor's own API.
var usualProfile dialect.MessagesProfile

func profileOf(to dialect.RequestTarget) *dialect.MessagesProfile {
	return cmp.Or(to.Messages, &usualProfile)
}

// model describes the capabilities of a family of models.
type model struct {
	match     string // substring of the names of the family
	maxTokens int64  // maximum length of a response
	formats   bool   // supports structured output and strict tools
	thinks    bool
	adaptive  bool // decides how much to think
	fixed     bool // accepts neither sampling parameters nor a thinking budget
	xhigh     bool // supports the effort xhigh
	effort    bool // accepts an effort together with a budget, as a beta feature
	calm      bool // accepts no effort above high without thinking
}

// models are the known families; the first match wins. Other model names of the
// vendor belong to newer families.
// https://docs.claude.com/en/docs/about-claude/models/overview
var models = []model{
	{match: "opus-5", maxTokens: 128000, formats: true, thinks: true, adaptive: true, fixed: true, xhigh: true, calm: true},
	{match: "opus-4-8", maxTokens: 128000, formats: true, thinks: true, adaptive: true, fixed: true, xhigh: true},
	{match: "opus-4-7", maxTokens: 128000, formats: true, thinks: true, adaptive: true, fixed: true, xhigh: true},
	{match: "fable-5", maxTokens: 128000, formats: true, thinks: true, adaptive: true, fixed: true, xhigh: true},
	{match: "sonnet-5", maxTokens: 128000, formats: true, thinks: true, adaptive: true, fixed: true, xhigh: true},
	{match: "sonnet-4-6", maxTokens: 128000, formats: true, thinks: true, adaptive: true},
	{match: "opus-4-6", maxTokens: 128000, formats: true, thinks: true, adaptive: true},
	{match: "opus-4-5", maxTokens: 64000, formats: true, thinks: true, effort: true},
	{match: "sonnet-4-5", maxTokens: 64000, formats: true, thinks: true},
	{match: "haiku-4-5", maxTokens: 64000, formats: true, thinks: true},
	{match: "opus-4-1", maxTokens: 32000, formats: true, thinks: true},
	{match: "sonnet-4", maxTokens: 64000, thinks: true},
	{match: "opus-4", maxTokens: 32000, thinks: true},
	{match: "claude-3-7", maxTokens: 64000, thinks: true},
	{match: "claude-3-5", maxTokens: 8192},
	{match: "claude-3", maxTokens: 4096},
	{match: "claude-2", maxTokens: 4096},
	{match: "claude-v2", maxTokens: 4096},
	{match: "claude-instant", maxTokens: 4096},
	{match: "claude", maxTokens: 128000, formats: true, thinks: true, adaptive: true, fixed: true, xhigh: true, calm: true},
}

// foreign describes models of other vendors that are offered in this protocol.
var foreign = model{maxTokens: 8192, thinks: true}

// modelOf returns the capabilities of a model.
func modelOf(name string) model {
	name = strings.ReplaceAll(strings.ToLower(name), ".", "-")
	for _, m := range models {
		if i := strings.Index(name, m.match); i >= 0 && !digitAt(name, i+len(m.match)) {
			return m
		}
	}
	return foreign
}

// digitAt reports whether s[i] is a digit. It keeps opus-4-1 from matching
// opus-4-10.
func digitAt(s string, i int) bool { return i < len(s) && s[i]-'0' <= 9 }
