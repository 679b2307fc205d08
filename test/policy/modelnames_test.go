package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// modelName matches names of models of well-known vendors.
var modelName = regexp.MustCompile(`(?i)\b(gpt-[0-9o]|o[1-9]-(mini|pro)|chatgpt-|claude-([0-9]|opus|sonnet|haiku|v2|instant)|gemini-([0-9]|pro|flash|embedding)|grok-[0-9]|dall-e|imagen|gemma\b|mixtral|(mistral|magistral)-(small|medium|large|[0-9])|codestral-|llama-?[0-9]|titan-[a-z]|nova-[a-z0-9]|deepseek-(v[0-9]|reasoner|chat)|command-[ra]|qwen-?[0-9]|(opus|sonnet|haiku)-[0-9])`)

// elsewhere are packages and files where names of models decide nothing: they
// show a user what to type, play a provider, or are conditions of an imported file.
var elsewhere = []string{"internal/model/modeldata/", "internal/simulator/", "tools/bench/", "internal/settings/foreign/"}

// What is known of a model is a row of internal/model/modeldata, so that a new model
// changes one place and has its source.
func TestNamesOfModelsAreInTheirTablesOnly(t *testing.T) {
	for _, name := range mustFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") ||
			slices.ContainsFunc(elsewhere, func(folder string) bool { return strings.HasPrefix(name, folder) }) {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, mustRead(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && modelName.MatchString(text) && !strings.Contains(text, " ") { // which is a sentence
					t.Errorf("%s: %q is a model's name: make it a row of internal/model/modeldata", set.Position(lit.Pos()), text)
				}
			}
			return true
		})
	}
}
