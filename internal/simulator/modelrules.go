package simulator

import "strings"

// A modelRule is what real models accept whose names begin with a prefix.
type modelRule struct {
	prefix   string
	output   int  // most tokens of a response
	noEffort bool // an effort for thinking is refused
	adaptive bool // a budget for thinking is refused
}

// modelRules are the rules, the first of which applies. Other models of the
// simulator accept everything.
var modelRules = []modelRule{
	// https://developers.openai.com/api/docs/models
	{"gpt-4o", 16384, true, false},
	{"gpt-4.1", 32768, true, false},
	{"gpt-4-turbo", 4096, true, false},
	{"gpt-3.5-turbo", 4096, true, false},
	// https://docs.aws.amazon.com/nova/latest/userguide/what-is-nova.html
	{"amazon.nova-micro", 10000, false, false},
	{"amazon.nova-lite", 10000, false, false},
	{"amazon.nova-pro", 10000, false, false},
	// https://docs.claude.com/en/docs/about-claude/models/overview
	{"claude-haiku-4-5", 64000, false, false},
	{"claude-3-5-haiku", 8192, true, false},
	// https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking
	{"claude-opus-4-7", 128000, false, true},
	{"claude-opus-4-8", 128000, false, true},
	{"claude-sonnet-5", 128000, false, true},
	// https://ai.google.dev/gemini-api/docs/models
	{"gemini-2.5", 65536, false, false},
	{"gemini-2.0-flash", 8192, true, false},
}

// checkModel returns the error of a model for a limit of output tokens, an effort
// or a budget for thinking. Its kind is empty if there is none.
func checkModel(model string, limit int, effort string, budget int) providerError {
	_, name, found := strings.Cut(model, "anthropic.")
	if !found {
		name = strings.TrimPrefix(model[strings.LastIndexByte(model, '/')+1:], "us.")
	}
	for _, r := range modelRules {
		if strings.HasPrefix(name, r.prefix) {
			return r.check(limit, effort, budget)
		}
	}
	return providerError{}
}

func (r *modelRule) check(limit int, effort string, budget int) (e providerError) {
	switch {
	case limit > r.output:
		return invalid("max_tokens", "max_tokens is too large: "+itoa(limit)+". This model supports at most "+itoa(r.output)+
			" completion tokens, whereas you provided "+itoa(limit)+".")
	case r.noEffort && effort != "" && effort != "none":
		e = invalid("reasoning_effort", "Unsupported parameter: 'reasoning_effort' is not supported with this model.")
		e.code = "unsupported_parameter"
	case r.adaptive && budget > 0:
		e = invalid("thinking",
			`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
	}
	return e
}
