package chat

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// usualProfile is the profile of most providers.
var usualProfile dialect.ChatProfile

// takesEffort reports whether the target's model accepts a thinking effort.
func (e *requestEncoder) takesEffort() bool {
	return !e.model.NoEffort
}

// modelOf returns what is known of the target's model.
func modelOf(to dialect.RequestTarget, profile *dialect.ChatProfile) *modeldata.Model {
	if profile.Vendor {
		return modeldata.OpenAI.Of(to.KnownModel())
	}
	return profile.Models.Of(to.KnownModel())
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
