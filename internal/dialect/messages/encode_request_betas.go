package messages

import (
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// toolBetas are the beta features that tools need at the vendor's own API.
var toolBetas = []dialect.ToolBeta{
	{Prefix: "web_search_20260209", Feature: "code-execution-web-tools-2026-02-09"},
	{Prefix: "web_fetch_20260209", Feature: "code-execution-web-tools-2026-02-09"},
	{Prefix: "web_fetch_20250910", Feature: "web-fetch-2025-09-10"},
	{Prefix: "code_execution_20250522", Feature: "code-execution-2025-05-22"},
	{Prefix: "code_execution_20250825", Feature: "code-execution-2025-08-25"},
	{Prefix: "advisor_20260301", Feature: "advisor-tool-2026-03-01"},
	{Prefix: "computer_20241022", Feature: "computer-use-2024-10-22"},
	{Prefix: "computer_20250124", Feature: "computer-use-2025-01-24"},
	{Prefix: "computer_20251124", Feature: "computer-use-2025-11-24"},
	{Prefix: "bash_20241022", Feature: "computer-use-2024-10-22"},
	{Prefix: "text_editor_20241022", Feature: "computer-use-2024-10-22"},
	{Prefix: "memory_", Feature: "context-management-2025-06-27"},
	{Prefix: "tool_search_tool_", Feature: "advanced-tool-use-2025-11-20"},
	{Prefix: "mcp_toolset", Feature: "mcp-client-2025-11-20"},
}

// knows reports whether the host supports a type of tool.
func (e *requestEncoder) knows(kind string) bool {
	return e.profile.Tools == nil || slices.ContainsFunc(e.profile.Tools, func(prefix string) bool { return strings.HasPrefix(kind, prefix) })
}

// betaOf returns the beta feature that a tool needs, empty if none.
func (e *requestEncoder) betaOf(kind string) string {
	list := toolBetas
	if e.profile.Betas != nil {
		list = e.profile.Betas
	}
	for _, b := range list {
		if strings.HasPrefix(kind, b.Prefix) {
			return b.Feature
		}
	}
	return ""
}

// betasIn reads beta features from an array or a comma-separated string.
func betasIn(v jsonedit.Value) (list []string) {
	if text, ok := v.Text(); ok {
		return splitBetas([]string{text})
	}
	for e := range v.Elements() {
		if text, ok := e.Text(); ok {
			list = append(list, splitBetas([]string{text})...)
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

// merge appends the elements of more that list does not contain.
func merge(list, more []string) []string {
	if len(more) == 1 && slices.Contains(list, more[0]) || len(more) == 0 {
		return list
	}
	if len(more) == 1 {
		return append(list, more[0])
	}
	known := make(map[string]bool, len(list)+len(more)) // a body may have any number of them
	for _, s := range list {
		known[s] = true
	}
	for _, s := range more {
		if !known[s] {
			known[s] = true
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
