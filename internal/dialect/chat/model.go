package chat

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// usualProfile is the profile of most providers.
var usualProfile dialect.ChatProfile

// takesEffort reports whether the target's model accepts a thinking effort.
func (e *requestEncoder) takesEffort() bool {
	switch {
	case e.profile.Vendor:
		return e.model.Thinks()
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
