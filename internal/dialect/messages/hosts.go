package messages

import (
	"slices"
	"strings"

	"modelgate/internal/jsonedit"
)

// hostProfile is how a host's envelope and abilities differ from those of the vendor's
// own API. The zero value is the vendor's own.
type hostProfile struct {
	version   string // anthropic_version in the body, where model has no place then
	noStream  bool   // the path says whether to stream
	noEager   bool   // eager streams of arguments are a beta feature, no member of a tool
	inline    bool   // takes data only: no addresses, no uploaded files
	noFormats bool   // no answers in the form of a schema, no strict tools
	// noNewFormats is noFormats for the models that take no sampling parameters.
	noNewFormats bool
	oneChoice    bool // tool_choice has no disable_parallel_tool_use
	// tools are the beginnings of the types of server tools, and of the tools that
	// the vendor defines, which the host knows; nil is all.
	tools []string
	// betas replaces the features that tools need at the vendor, by the beginning
	// of the tool's type.
	betas []beta
}

// beta is a feature that must be named for tools whose type begins so.
type beta struct{ prefix, feature string }

// hosts are those that serve the vendor's models in an envelope of their own.
// https://docs.claude.com/en/api/claude-on-vertex-ai
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
var hosts = map[string]hostProfile{
	"vertex-ai": {
		version: "vertex-2023-10-16", inline: true, noFormats: true,
		tools: []string{"bash_", "text_editor_", "computer_20241022", "web_search_20250305", "memory_", "tool_search_"},
	},
	"bedrock": {
		version: "bedrock-2023-05-31", noStream: true, noEager: true, inline: true, noNewFormats: true, oneChoice: true,
		tools: []string{"bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_regex_"},
		betas: []beta{
			{"computer_20251124", "computer-use-2025-11-24"},
			{"bash_", "computer-use-2025-01-24"}, {"text_editor_", "computer-use-2025-01-24"}, {"computer_", "computer-use-2025-01-24"},
			{"tool_search_", "tool-search-tool-2025-10-19"}, {"memory_", "context-management-2025-06-27"},
		},
	},
}

// toolBetas are the features that tools need at the vendor itself.
var toolBetas = []beta{
	{"web_search_20260209", "code-execution-web-tools-2026-02-09"}, {"web_fetch_20260209", "code-execution-web-tools-2026-02-09"},
	{"web_fetch_20250910", "web-fetch-2025-09-10"},
	{"code_execution_20250522", "code-execution-2025-05-22"}, {"code_execution_20250825", "code-execution-2025-08-25"},
	{"advisor_20260301", "advisor-tool-2026-03-01"},
	{"computer_20241022", "computer-use-2024-10-22"}, {"computer_20250124", "computer-use-2025-01-24"}, {"computer_20251124", "computer-use-2025-11-24"},
	{"bash_20241022", "computer-use-2024-10-22"}, {"text_editor_20241022", "computer-use-2024-10-22"},
	{"memory_", "context-management-2025-06-27"},
	{"tool_search_tool_", "advanced-tool-use-2025-11-20"},
	{"mcp_toolset", "mcp-client-2025-11-20"},
}

// knows reports whether the host knows tools of a type.
func (h *hostProfile) knows(kind string) bool {
	return h.tools == nil || slices.ContainsFunc(h.tools, func(prefix string) bool { return strings.HasPrefix(kind, prefix) })
}

// betaOf returns the feature that a tool needs, empty when it needs none.
func (h *hostProfile) betaOf(kind string) string {
	list := toolBetas
	if h.betas != nil {
		list = h.betas
	}
	for _, b := range list {
		if strings.HasPrefix(kind, b.prefix) {
			return b.feature
		}
	}
	return ""
}

// betasIn reads features as an array or as text with commas.
func betasIn(v jsonedit.Value) (list []string) {
	if text, ok := v.Text(); ok {
		return splitBetas([]string{text})
	}
	for e := range v.Elements() {
		if text, ok := e.Text(); ok {
			list = merge(list, splitBetas([]string{text}))
		}
	}
	return list
}

func splitBetas(values []string) (list []string) {
	for _, value := range values {
		for feature := range strings.SplitSeq(value, ",") {
			if feature = strings.TrimSpace(feature); feature != "" {
				list = append(list, feature)
			}
		}
	}
	return list
}

// merge appends to list what it lacks.
func merge(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

func writeStrings(b *jsonedit.Builder, list []string) {
	b.Open('[')
	for _, s := range list {
		b.String(s)
	}
	b.Close(']')
}
