package simulator

import "strings"

// modelRules are rules of real models, by the beginnings of their names. The first
// applies. Other models of the simulator accept everything.
var modelRules = []struct {
	prefix   string
	output   int  // most tokens of a response
	noEffort bool // an effort for thinking is refused
}{
	// https://developers.openai.com/api/docs/models
	{"gpt-4o", 16384, true},
	{"gpt-4.1", 32768, true},
	{"gpt-4-turbo", 4096, true},
	{"gpt-3.5-turbo", 4096, true},
	// https://docs.aws.amazon.com/nova/latest/userguide/what-is-nova.html
	{"amazon.nova-micro", 10000, false},
	{"amazon.nova-lite", 10000, false},
	{"amazon.nova-pro", 10000, false},
	// https://docs.claude.com/en/docs/about-claude/models/overview
	{"claude-haiku-4-5", 64000, false},
	{"claude-3-5-haiku", 8192, true},
	// https://ai.google.dev/gemini-api/docs/models
	{"gemini-2.5", 65536, false},
	{"gemini-2.0-flash", 8192, true},
}

// ruleOf returns the most tokens of a model's response, 0 if it has no limit, and
// whether it refuses an effort.
func ruleOf(model string) (output int, noEffort bool) {
	model = strings.TrimPrefix(model[strings.LastIndexByte(model, '/')+1:], "us.")
	for _, r := range modelRules {
		if strings.HasPrefix(model, r.prefix) {
			return r.output, r.noEffort
		}
	}
	return 0, false
}

// checkModel returns the error of a model for a limit of output tokens, which is
// called name, or for an effort. Its kind is empty if there is none.
func checkModel(model string, limit int, name, effort string) providerError {
	output, noEffort := ruleOf(model)
	switch {
	case output > 0 && limit > output:
		return invalid(name, name+" is too large: "+itoa(limit)+". This model supports at most "+itoa(output)+" completion tokens, whereas you provided "+itoa(limit)+".")
	case noEffort && effort != "" && effort != "none":
		e := invalid("reasoning_effort", "Unsupported parameter: 'reasoning_effort' is not supported with this model.")
		e.code = "unsupported_parameter"
		return e
	}
	return providerError{}
}
