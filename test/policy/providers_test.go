package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/provider/table"
)

// providerWords are the folders outside the provider table that may hold words
// which are also ids of providers, and why. Elsewhere an id would be
// the key of a decision that belongs into the provider's row.
var providerWords = []struct{ where, words, why string }{
	{"api", "cohere gemini ollama oracle replicate", "dialects"},
	{"cmd/modelgate", "gemini openai-compatible", "the row that a demo and an offline check configure, and the name of an agent"},
	{"config", "ollama passthrough triton", "which configs are valid is checked without the table, since others import the package"},
	{"tools/bench", "anthropic bedrock cometapi gemini google openai-compatible", "the rows that are measured"},
	{"internal/dialect/chat", "anthropic azure google openai x-ai xai", "fields and formats of the wire, and the vendor in the name of a model"},
	{"internal/dialect/converse", "ai21 anthropic cohere mistral openai qwen", "the vendor in the id of a model"},
	{"internal/settings/foreign", "ai21 ai360 anthropic azure-openai baichuan baidu-qianfan bedrock cohere dashscope deepseek friendli google groq huggingface hunyuan lambda " +
		"lingyi minimax mistral-ai moonshot novita-ai ollama openai openai-compatible openrouter perplexity-ai replicate sagemaker sglang siliconflow stepfun together-ai vertex-ai vllm volcengine workers-ai x-ai xunfei-spark z-ai zhipu",
		"names and numbers of providers in the files of other gateways"},
	{"internal/testing/gatewaytest", "openai-compatible", "the row that tests configure"},
	{"internal/model/llm", "anthropic google openai", "vendors, who sign what their models think"},
	{"internal/model/modeldata", "anthropic qwen", "a publisher in the paths of Vertex AI, and a name of models"},
	{"internal/stateplane/vendorbatch", "anthropic azure-openai bedrock cohere dashscope fireworks-ai google groq litellm-proxy mistral-ai openai together-ai vertex-ai x-ai", "the table of vendors' batch APIs"},
	{"internal/stateplane/vendortune", "azure-openai bedrock cohere fireworks fireworks-ai mistral-ai openai together-ai vertex-ai", "the table of vendors' fine-tuning APIs"},
	{"internal/stateplane/vendorcall", "bedrock", "the control plane of a cloud"},
	{"internal/simulator", "anthropic azure cohere fireworks gemini google groq mistral ollama openai together xai",
		"dialects and vendors; it shares no code with the gateway"},
}

func TestProviderIDsAreWordsOfTheTableOnly(t *testing.T) {
	ids := map[string]bool{}
	for _, row := range table.All() {
		for _, id := range slices.Concat(row.Aliases, []string{row.ID}) {
			ids[id] = true
		}
	}
	used := map[[2]string]bool{}
	for _, name := range mustFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || within(path.Dir(name), "internal/provider/...", "test/...") {
			continue
		}
		for word, line := range literals(t, name, mustRead(t, name)) {
			allowed := false
			for _, p := range providerWords {
				if p.where == path.Dir(name) && slices.Contains(strings.Fields(p.words), word) {
					allowed, used[[2]string{p.where, word}] = true, true
				}
			}
			if ids[word] && !allowed {
				t.Errorf("%s:%d: %q is the id of a provider; what depends on the provider belongs into its row in internal/provider/table", name, line, word)
			}
		}
	}
	for _, p := range providerWords {
		for word := range strings.FieldsSeq(p.words) {
			if !used[[2]string{p.where, word}] {
				t.Errorf("%s holds no %q any more: remove the word from providerWords", p.where, word)
			}
		}
	}
}

// Words of the wire are ids too, so a dialect could still compare one.
func TestDialectsDoNotDecideByProvider(t *testing.T) {
	for _, name := range mustFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || !within(path.Dir(name), "internal/dialect/...") {
			continue
		}
		for _, line := range decisionsByProvider(t, name, mustRead(t, name)) {
			t.Errorf("%s:%d: decides by the id of a provider; take it from the target's profile", name, line)
		}
	}
}

func TestDecisionsByProviderAreFound(t *testing.T) {
	const src = "package p\nfunc f(to target) string {\nif to.Provider == \"a\" {}\nswitch to.Provider {}\n_ = m[to.Provider]\nif to.Model == \"a\" || to.Provider != nil {}\nreturn to.Provider }"
	if got, want := decisionsByProvider(t, "p.go", []byte(src)), []int{3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("decisions are in lines %v, want %v", got, want)
	}
}

// decisionsByProvider returns the lines in which a field called Provider is
// compared, switched on or used as a key.
func decisionsByProvider(t *testing.T, name string, src []byte) (lines []int) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	check := func(list ...ast.Expr) {
		for _, e := range list {
			if s, ok := e.(*ast.SelectorExpr); ok && s.Sel.Name == "Provider" {
				lines = append(lines, set.Position(e.Pos()).Line)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if other, ok := n.Y.(*ast.Ident); !ok || other.Name != "nil" {
				check(n.X, n.Y)
			}
		case *ast.SwitchStmt:
			check(n.Tag)
		case *ast.IndexExpr:
			check(n.Index)
		}
		return true
	})
	return lines
}

func TestLiteralsAreFoundWhereverTheyStand(t *testing.T) {
	const src = "package p\nimport \"fmt\"\nvar m = map[string]int{\n\"key\": 1}\nfunc f(s string) bool {\nfmt.Print(`raw`)\nswitch s {\ncase \"case\":\n}\nreturn s == \"equal\" }"
	want := map[string]int{"key": 4, "raw": 6, "case": 8, "equal": 10}
	got := literals(t, "p.go", []byte(src))
	for word, line := range want {
		if got[word] != line {
			t.Errorf("%q is found in line %d, want %d", word, got[word], line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("literals = %v, want %v", got, want)
	}
}

// literals returns the strings of a file, apart from its imports and tags, each
// with the first line that holds it.
func literals(t *testing.T, name string, src []byte) map[string]int {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, isImport := n.(*ast.ImportSpec); isImport {
			return false
		}
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil && found[text] == 0 {
				found[text] = set.Position(l.Pos()).Line
			}
		}
		return true
	})
	return found
}
