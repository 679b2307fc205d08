package gemini

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/llm"
)

// generation describes the capabilities that follow from a model's name.
type generation struct {
	name  string // without the path before it
	major int
	minor int
}

// generationOf parses a model's name. A gemini with an unknown number counts as
// new, any other model as second generation.
func generationOf(model string) generation {
	g := generation{name: strings.ToLower(model[strings.LastIndexByte(model, '/')+1:]), major: 2}
	g.name = strings.TrimPrefix(g.name, "google.")
	rest, ok := strings.CutPrefix(g.name, "gemini-")
	if !ok {
		return g
	}
	digits := rest[:prefixOf(rest, "0123456789.")]
	major, minor, _ := strings.Cut(digits, ".")
	switch n, err := strconv.Atoi(major); {
	case err == nil:
		g.major = n
		g.minor, _ = strconv.Atoi(minor)
	case rest == "pro" || rest == "pro-vision":
		g.major = 1
	default:
		g.major = 3
	}
	return g
}

// prefixOf returns the length of the prefix of s that consists of bytes in set.
func prefixOf(s, set string) int {
	for i := range len(s) {
		if strings.IndexByte(set, s[i]) < 0 {
			return i
		}
	}
	return len(s)
}

// levels reports whether thinking is set by named levels rather than by a token
// budget.
// https://ai.google.dev/gemini-api/docs/thinking#levels-budgets
func (g generation) levels() bool {
	return g.major >= 3 && !strings.HasPrefix(g.name, "gemini-3-pro-image")
}

// thinks reports whether the model is a thinking model.
func (g generation) thinks() bool { return g.major >= 3 || g.major == 2 && g.minor >= 5 }

// signs reports whether the model rejects its own calls if they come back
// without their signature.
// https://ai.google.dev/gemini-api/docs/thought-signatures
func (g generation) signs() bool { return g.major >= 3 }

// mixes reports whether functions can be combined with provider tools and with
// a response format.
func (g generation) mixes() bool { return g.major >= 3 }

// gemma reports whether the model is a Gemma model, which has no system
// instruction.
func (g generation) gemma() bool { return strings.HasPrefix(g.name, "gemma") }

// jsonSchema reports whether the model accepts JSON Schema; older models accept
// a subset of OpenAPI schema.
func (g generation) jsonSchema() bool { return g.major >= 2 && !g.gemma() }

// lowest returns the level nearest to no thinking.
func (g generation) lowest() string {
	late := g.major > 3 || g.major == 3 && g.minor >= 7
	flash := strings.Contains(g.name, "flash")
	lite := strings.Contains(g.name, "lite")
	if !flash || g.name == "gemini-flash-latest" || late && !lite {
		return "low"
	}
	return "minimal"
}

// level returns the level for an effort.
func (g generation) level(effort string) string {
	switch effort {
	case "none", "minimal":
		return g.lowest()
	case "low", "medium":
		return effort
	}
	return "high"
}

// bounds returns the range of thinking budgets that the model accepts. A budget
// of zero disables thinking if min is zero.
func (g generation) bounds() (min, max int64) {
	switch {
	case strings.Contains(g.name, "pro"):
		return 128, 32768
	case strings.Contains(g.name, "flash-lite"):
		return 512, 24576
	}
	return 1, 24576
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
