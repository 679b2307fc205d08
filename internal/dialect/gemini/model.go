package gemini

import (
	"slices"

	"modelgate/internal/model/llm"
)

// levels reports whether thinking is set by named levels rather than by a token
// budget.
// https://ai.google.dev/gemini-api/docs/thinking#levels-budgets
func (w *requestEncoder) levels() bool { return len(w.model.Efforts) > 0 }

// levelOf returns the level for an effort; the highest for one without a rank.
func (w *requestEncoder) levelOf(effort string) string {
	level := w.model.Effort(effort)
	if !slices.Contains(w.model.Efforts, level) {
		return w.model.Efforts[len(w.model.Efforts)-1]
	}
	return level
}

// budgetOf returns the budget for an effort.
func budgetOf(effort string) int64 {
	switch effort {
	case "none":
		return 0
	case "minimal", "low":
		return 1024
	case "medium":
		return 8192
	}
	return 24576
}

// functions returns the tools that the client runs.
func functions(tools []llm.Tool) []llm.Tool {
	if !slices.ContainsFunc(tools, isBuiltin) {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), isBuiltin)
}

func isBuiltin(t llm.Tool) bool { return t.Native != nil || t.Server != "" }
