package provider

import (
	"bytes"
	"net/http"
	"strings"

	"modelgate/api"
)

// OptionalParameter is a parameter that some models refuse, and without which a
// request means the same.
type OptionalParameter struct {
	// Path is the place in bodies: a member, or a member of one, with a dot.
	Path string
	// Words are its names in errors, in lower case.
	Words []string
	// Effort is true for the parameter that modeldata calls an effort.
	Effort bool
}

// Names of settings of thinking in errors.
var (
	effortWords = []string{"reasoning_effort", "reasoningeffort", "reasoning effort", "body.reasoning_effort", "reasoning.effort",
		"thinking"}
	thinkingWords = []string{"thinking", "body.thinking"}
)

// additional is the member of converse bodies with what only some models have.
const additional = "additionalModelRequestFields."

// OptionalParameters returns the optional parameters of conversations in dialect
// d. The slice is shared.
func OptionalParameters(d api.Dialect) []OptionalParameter { return optionalParameters[d] }

var optionalParameters = map[api.Dialect][]OptionalParameter{
	api.DialectChat: {
		{Path: "reasoning_effort", Words: effortWords, Effort: true},
		{Path: "reasoning", Words: []string{"reasoning", "reasoning.effort", "reasoning_effort", "reasoningeffort"}, Effort: true},
		{Path: "thinking", Words: thinkingWords},
	},
	api.DialectResponses: {
		{Path: "reasoning.effort", Words: effortWords, Effort: true},
		{Path: "reasoning", Words: []string{"reasoning", "reasoning.summary"}},
	},
	api.DialectMessages: {
		{Path: "output_config.effort", Words: []string{"effort", "output_config.effort", "output_config"}, Effort: true},
		{Path: "thinking", Words: thinkingWords},
	},
	api.DialectGemini: {
		{Path: "generationConfig.thinkingConfig",
			Words: []string{"thinking", "thinkingconfig", "thinking_config", "thinking_level", "thinkinglevel", "thinking_budget",
				"thinkingbudget"}},
	},
	api.DialectConverse: {
		{Path: additional + "reasoning_effort", Words: effortWords, Effort: true},
		{Path: additional + "reasoning_config", Words: []string{"reasoning_config"}, Effort: true},
		{Path: additional + "reasoningConfig", Words: []string{"reasoningconfig"}, Effort: true},
		{Path: additional + "output_config", Words: []string{"effort", "output_config.effort", "output_config"}, Effort: true},
		{Path: additional + "thinking", Words: thinkingWords},
	},
	api.DialectOllama: {{Path: "think", Words: []string{"think", "thinking"}}},
	api.DialectCohere: {{Path: "thinking", Words: thinkingWords}},
}

// refusals are the phrases with which providers refuse a parameter that they do
// not know or that the model does not have.
var refusals = []struct {
	text   string // in lower case
	source string
	read   string
}{
	{"does not support", "https://github.com/NousResearch/hermes-agent/issues/23088", "2026-11-28"},
	{"doesn't support", "https://github.com/atomantic/PortOS/pull/6130", "2026-11-28"},
	{"not supported", "https://github.com/RooCodeInc/Roo-Code/issues/10700", "2026-11-28"},
	{"is unsupported", "https://github.com/proxysoul/Empryo/pull/209", "2026-11-28"},
	{"is not enabled for", "https://github.com/lobehub/lobehub/issues/7985", "2026-11-28"},
	{"unrecognized request argument", "https://github.com/davidmigloz/langchain_dart/issues/712", "2026-11-28"},
	{"unknown_parameter", "https://github.com/kortix-ai/suna/pull/6893", "2026-11-28"},
	{"unknown parameter", "https://github.com/kortix-ai/suna/pull/6893", "2026-11-28"},
	{"unsupported_parameter", "https://platform.openai.com/docs/guides/error-codes", "2026-11-28"},
	{"unsupported parameter", "https://platform.openai.com/docs/guides/error-codes", "2026-11-28"},
	{"extra inputs are not permitted", "https://github.com/crmne/ruby_llm/issues/851", "2026-11-28"},
	{"extra_forbidden", "https://docs.pydantic.dev/latest/errors/validation_errors/#extra_forbidden", "2026-11-28"},
	{"extraneous key", "https://github.com/BerriAI/litellm/issues/7416", "2026-11-28"},
	{"unknown name", "https://cloud.google.com/apis/design/errors", "2026-11-28"},
}

// valueErrors are the phrases of errors about the value of a parameter, or about
// its combination with others. Without it the request would mean something else.
var valueErrors = []string{"unsupported value", "unsupported_value", "supported values", "invalid value", "must be one of",
	"input should be", "thinking.type", "tool_choice"}

// refusalLimit is the length of an error that is read for what it refuses.
const refusalLimit = 16 << 10

// ReadRefused returns the optional parameters of bodies in dialect d that an
// error refuses, whatever their value is.
func ReadRefused(d api.Dialect, status int, body []byte) []OptionalParameter {
	optional := optionalParameters[d]
	if len(optional) == 0 || status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return nil
	}
	text := string(bytes.ToLower(body[:min(len(body), refusalLimit)]))
	if containsAny(text, valueErrors) {
		return nil
	}
	found := false
	for _, r := range refusals {
		found = found || strings.Contains(text, r.text)
	}
	if !found {
		return nil
	}
	var list []OptionalParameter
	for _, p := range optional {
		if namesAny(text, p.Words) {
			list = append(list, p)
		}
	}
	return list
}

func containsAny(text string, phrases []string) bool {
	for _, p := range phrases {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// namesAny reports whether one of words is in text and not part of a longer name or
// path.
func namesAny(text string, words []string) bool {
	for _, w := range words {
		for at := 0; ; {
			i := strings.Index(text[at:], w)
			if i < 0 {
				break
			}
			at += i + len(w)
			if !endsInName(text[:at-len(w)]) && !beginsWithName(text[at:]) {
				return true
			}
		}
	}
	return false
}

// endsInName reports whether a name or path may go on after text.
func endsInName(text string) bool {
	return text != "" && (isNameByte(text[len(text)-1]) || text[len(text)-1] == '.')
}

// beginsWithName reports whether text continues a name or path.
func beginsWithName(text string) bool {
	return text != "" && (isNameByte(text[0]) || len(text) > 1 && text[0] == '.' && isNameByte(text[1]))
}

func isNameByte(c byte) bool { return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' }
