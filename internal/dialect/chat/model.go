package chat

import (
	"regexp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// usualProfile is the profile of most providers.
var usualProfile dialect.ChatProfile

// reasons reports whether a model of the dialect's own vendor is a reasoning
// model, which accepts efforts but no sampling parameters.
// https://platform.openai.com/docs/guides/reasoning
func reasons(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	return thinkers.MatchString(model) && !strings.Contains(model, "-chat")
}

var thinkers = regexp.MustCompile(`^(o[1-9]|gpt-([5-9]|[1-9]\d)|codex)`)

// takesEffort reports whether the target's model accepts a thinking effort.
func (e *requestEncoder) takesEffort() bool {
	switch {
	case e.profile.Vendor:
		return reasons(e.to.Model)
	case e.profile.EffortModels != nil:
		return e.profile.EffortModels(e.to.Model)
	}
	return true
}

// vendorOf returns the vendor whose signatures a model behind OpenRouter
// accepts. Model names begin with it.
func vendorOf(model string) llm.Vendor {
	head, _, _ := strings.Cut(strings.TrimPrefix(model, "~"), "/")
	switch head {
	case "x-ai":
		return "xai"
	}
	return llm.Vendor(head)
}
