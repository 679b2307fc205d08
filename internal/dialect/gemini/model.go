package gemini

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/llm"
)

// generation is what a model's name says of its abilities.
type generation struct {
	name  string // without the path before it
	major int
	minor int
}

// generationOf reads a model's name. A gemini whose number is unknown counts
// as new, and any other model as one of the second generation.
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

// prefixOf returns how many bytes of s at its start are of set.
func prefixOf(s, set string) int {
	for i := range len(s) {
		if strings.IndexByte(set, s[i]) < 0 {
			return i
		}
	}
	return len(s)
}

// levels reports whether thinking is measured in words rather than in tokens.
// https://ai.google.dev/gemini-api/docs/thinking#levels-budgets
func (g generation) levels() bool {
	return g.major >= 3 && !strings.HasPrefix(g.name, "gemini-3-pro-image")
}

// thinks reports whether the model thinks at all.
func (g generation) thinks() bool { return g.major >= 3 || g.major == 2 && g.minor >= 5 }

// signs reports whether the model refuses calls of its own that come back
// without their signature.
// https://ai.google.dev/gemini-api/docs/thought-signatures
func (g generation) signs() bool { return g.major >= 3 }

// mixes reports whether functions may be combined with the tools of the provider, and
// beside a form of the answer.
func (g generation) mixes() bool { return g.major >= 3 }

// gemma reports whether the model has no place for a system instruction.
func (g generation) gemma() bool { return strings.HasPrefix(g.name, "gemma") }

// jsonSchema reports whether the model takes JSON Schema as it is; older ones
// take a part of OpenAPI's.
func (g generation) jsonSchema() bool { return g.major >= 2 && !g.gemma() }

// lowest is the level nearest to no thinking at all.
func (g generation) lowest() string {
	late := g.major > 3 || g.major == 3 && g.minor >= 7
	flash := strings.Contains(g.name, "flash")
	lite := strings.Contains(g.name, "lite")
	if !flash || g.name == "gemini-flash-latest" || late && !lite {
		return "low"
	}
	return "minimal"
}

// level is the level for an effort.
func (g generation) level(effort string) string {
	switch effort {
	case "none", "minimal":
		return g.lowest()
	case "low", "medium":
		return effort
	}
	return "high"
}

// bounds are the budgets of thinking that a model measured in tokens takes; zero
// stops it where min allows.
func (g generation) bounds() (min, max int64) {
	switch {
	case strings.Contains(g.name, "pro"):
		return 128, 32768
	case strings.Contains(g.name, "flash-lite"):
		return 512, 24576
	}
	return 1, 24576
}

// budgetOf is the budget for an effort.
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

// functions are the tools that the caller runs, and builtin those of the
// provider.
func functions(tools []llm.Tool) []llm.Tool {
	if !slices.ContainsFunc(tools, isBuiltin) {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), isBuiltin)
}

func isBuiltin(t llm.Tool) bool { return t.Native != nil || t.Server != "" }
