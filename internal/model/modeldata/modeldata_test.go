package modeldata_test

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/model/modeldata"
)

// names are real names for the rows of each table: every row is the rule for at
// least one, and each row of the tables is used.
var names = map[string]struct {
	table modeldata.Table
	names map[string]string // the pattern that applies, by name
}{
	"OpenAI": {modeldata.OpenAI, map[string]string{
		"gpt-4o-search-preview":             "-search-preview",
		"gpt-4o-mini-search-preview":        "-search-preview",
		"gpt-5-search-api":                  "^gpt-5-search-api",
		"gpt-4o-audio-preview":              "^gpt-4o*-audio",
		"gpt-4o-mini-audio-preview":         "^gpt-4o*-audio",
		"gpt-audio-mini":                    "^gpt-audio",
		"computer-use-preview":              "^computer-use",
		"o3-deep-research":                  "-deep-research",
		"o1-pro-2025-03-19":                 "^o#-pro",
		"o3-pro":                            "^o#-pro",
		"gpt-5-pro":                         "^gpt-5-pro",
		"gpt-5.2-pro":                       "^gpt-*-pro",
		"gpt-5.4-pro-2026-03-05":            "^gpt-*-pro",
		"codex-mini-latest":                 "^codex-",
		"gpt-5-codex":                       "^gpt-5-codex",
		"gpt-5.1-codex-max":                 "^gpt-5-1-codex-max",
		"gpt-5.1-codex-mini":                "^gpt-5-1-codex",
		"databricks-gpt-5-1-codex":          "^gpt-5-1-codex",
		"gpt-5.3-codex":                     "^gpt-*-codex",
		"gpt-5.2-chat-latest":               "^gpt-*-chat",
		"chatgpt-4o-latest":                 "^chatgpt-",
		"gpt-3.5-turbo":                     "^gpt-3",
		"gpt-35-turbo":                      "^gpt-35",
		"gpt-4":                             "^gpt-4",
		"gpt-4.1-nano":                      "^gpt-4-1",
		"gpt-4.5-preview":                   "^gpt-4-5",
		"gpt-4-turbo-2024-04-09":            "^gpt-4-turbo",
		"gpt-4-vision-preview":              "^gpt-4-vision",
		"gpt-4-1106-preview":                "^gpt-4-1106",
		"gpt-4-0125-preview":                "^gpt-4-0125",
		"gpt-4-0613":                        "^gpt-4",
		"gpt-4-prod":                        "^gpt-4",
		"gpt-3.5-turbo-16k":                 "^gpt-3-5-turbo-16k",
		"gpt-4o":                            "^gpt-4o",
		"gpt-4o-2024-05-13":                 "^gpt-4o-2024-05-13",
		"gpt-4o-2024-11-20":                 "^gpt-4o",
		"ft:gpt-4o-mini-2024-07-18:acme::1": "^gpt-4o",
		"openai.gpt-oss-120b-1:0":           "^gpt-oss",
		"dall-e-2":                          "^dall-e-2",
		"dall-e-3":                          "^dall-e-3",
		"o1":                                "^o1",
		"o3-mini":                           "^o3",
		"o4-mini":                           "^o4",
		"gpt-5.1":                           "^gpt-5-1",
		"gpt-5.2":                           "^gpt-5-2",
		"gpt-5.4-mini":                      "^gpt-5-4",
		"gpt-5.5":                           "^gpt-5-5",
		"gpt-5.6-sol":                       "^gpt-5-6",
		"openai/GPT-5":                      "^gpt-5",
		"gpt-5-2025-08-07":                  "^gpt-5",
		"gpt-5-nano":                        "^gpt-5",
		"gpt-5.12":                          "^gpt-5-#",
		"gpt-5.7-mini":                      "^gpt-5-#",
		"gpt-5.7-pro":                       "^gpt-*-pro",
		"gpt-6":                             "^gpt-#",
		"gpt-6.1-2027-01-02":                "^gpt-#",
		"gpt-6-codex":                       "^gpt-*-codex",
		"gpt-prod":                          "",
		"o5":                                "^o#",
		"o5-mini":                           "^o#",
		"o5-pro":                            "^o#-pro",
		"our-pro":                           "",
		"o365-helper":                       "",
		"gpt-6-astra":                       "^gpt-#",
		"gpt-51":                            "^gpt-#",
		"gpt-4o-prod":                       "^gpt-4o",
		"our-deployment":                    "",
		"o12":                               "^o#",
		"olmo-2":                            "",
	}},
	"Copilot": {modeldata.Copilot, map[string]string{
		"gpt-5.1-codex-mini": "^gpt-*-codex",
		"gpt-3.5-turbo":      "^gpt-3",
		"gpt-4o":             "^gpt-4",
		"gpt-5.1":            "^gpt-5-1",
		"gpt-5.2":            "^gpt-5-2",
		"gpt-5.3":            "^gpt-5-3",
		"gpt-5-mini":         "^gpt-5-mini",
		"gpt-5.6-luna":       "^gpt-",
		"claude-sonnet-4.5":  "^claude",
		"gemini-3.1-pro":     "^gemini",
		"grok-code-fast-1":   "^grok",
		"recorded-model":     "",
	}},
	"Anthropic": {modeldata.Anthropic, map[string]string{
		"claude-opus-5":                     "opus-5",
		"claude-opus-4.8":                   "opus-4-8",
		"claude-opus-4-7":                   "opus-4-7",
		"fable-5":                           "fable-5",
		"claude-sonnet-5":                   "sonnet-5",
		"claude-sonnet-4-6":                 "sonnet-4-6",
		"claude-opus-4-6@20260101":          "opus-4-6",
		"us.anthropic.claude-opus-4-5-v1:0": "opus-4-5",
		"anthropic/claude-sonnet-4.5":       "sonnet-4-5",
		"claude-haiku-4-5-20251001":         "haiku-4-5",
		"claude-opus-4-1-20250805":          "opus-4-1",
		"claude-sonnet-4-20250514":          "sonnet-4",
		"claude-opus-4-20250514":            "opus-4",
		"claude-sonnet-4-0":                 "sonnet-4-0",
		"claude-opus-4-0":                   "opus-4-0",
		"claude-opus-4-10":                  "claude-*-4-#",
		"anthropic/claude-haiku-4.9":        "claude-*-4-#",
		"us.anthropic.claude-sonnet-4-8-v1": "claude-*-4-#",
		"claude-opus-4@20250514":            "opus-4",
		"claude-sonnet-4":                   "sonnet-4",
		"claude-opus-6":                     "claude",
		"claude-haiku-5-20270101":           "claude",
		"opera-4-7":                         "",
		"databricks-claude-3-7-sonnet":      "claude-3-7",
		"claude-3-5-haiku-20241022":         "claude-3-5",
		"claude-3-opus-20240229":            "claude-3",
		"claude-2.1":                        "claude-2",
		"anthropic.claude-v2:1":             "claude-v2",
		"anthropic.claude-instant-v1":       "claude-instant",
		"claude-next":                       "claude",
		"glm-4.6":                           "",
	}},
	"Google": {modeldata.Google, map[string]string{
		"gemini-embedding-2-preview":        "^gemini-embedding",
		"gemini-embedding-3":                "^gemini-embedding",
		"gemini-embedding-001":              "^gemini-embedding-001",
		"imagen-4.0-generate-001":           "^imagen",
		"models/gemma-3-27b-it":             "^gemma",
		"gemini-1.5-pro":                    "^gemini-1",
		"gemini-pro-vision":                 "^gemini-pro-vision",
		"gemini-2.5-pro":                    "^gemini-2-5*pro",
		"gemini-2.5-flash-lite-preview":     "^gemini-2-5*flash-lite",
		"google.gemini-2.5-flash":           "^gemini-2-5",
		"gemini-2.0-flash":                  "^gemini-2-0-flash",
		"gemini-2.0-flash-lite":             "^gemini-2-0-flash",
		"gemini-2.0-flash-thinking-exp":     "^gemini-2-0-flash-thinking",
		"gemini-2.0-pro-exp":                "^gemini-2",
		"gemini-3-pro-image-preview":        "^gemini-*pro-image",
		"gemini-3.1-flash-lite":             "^gemini-*flash-lite",
		"gemini-flash-lite-latest":          "^gemini-*flash-lite",
		"gemini-3-flash-preview":            "^gemini-*flash",
		"gemini-3.1-flash-image-preview":    "^gemini-*flash",
		"gemini-3.5-flash":                  "^gemini-*flash",
		"gemini-3.6-flash":                  "^gemini-*flash",
		"gemini-3.7-flash":                  "^gemini-*flash",
		"gemini-4-flash-lite":               "^gemini-*flash-lite",
		"gemini-4-pro-image":                "^gemini-*pro-image",
		"gemini-4-pro":                      "^gemini-",
		"gemini-flash-latest":               "^gemini-*flash",
		"publishers/google/models/gemini-4": "^gemini-",
		"text-embedding-005":                "",
	}},
	"Bedrock": {modeldata.Bedrock, map[string]string{
		"amazon-titan-embed-text-v2:0":              "^amazon-titan-embed-text",
		"amazon-titan-embed-text-v3:0":              "^amazon-titan-embed-text",
		"amazon-titan-embed-text-v1":                "^amazon-titan-embed-text-v1",
		"amazon-titan-embed-g1-text-02":             "^amazon-titan-embed-g1",
		"amazon-titan-embed-image-v1":               "^amazon-titan-embed-image",
		"amazon-nova-embed-v1:0":                    "^amazon-nova*embed",
		"amazon-nova-2-multimodal-embeddings-v1:0":  "^amazon-nova*embeddings",
		"cohere-embed-v4:0":                         "^cohere-*embed",
		"cohere-embed-v5:0":                         "^cohere-*embed",
		"cohere-embed-multilingual-v3":              "^cohere-embed-multilingual",
		"cohere-embed-english-v3":                   "^cohere-embed-english",
		"amazon-titan-image-generator-v2:0":         "^amazon-titan-image",
		"amazon-nova-canvas-v1:0":                   "^amazon-nova-canvas",
		"stability-stable-diffusion-xl-v1":          "^stability-stable-diffusion-xl",
		"stability-sd3-5-large-v1:0":                "^stability-",
		"amazon-rerank-v1:0":                        "rerank",
		"anthropic-claude-3-7-sonnet-20250219-v1:0": "^anthropic-claude-3-7",
		"anthropic-claude-3-5-haiku-20241022-v1:0":  "^anthropic-claude-3",
		"anthropic-claude-v2:1":                     "^anthropic-claude-v2",
		"anthropic-claude-2":                        "^anthropic-claude-2",
		"anthropic-claude-instant-v1":               "^anthropic-claude-instant",
		"anthropic-claude-opus-4-1-20250805-v1:0":   "^anthropic-*opus-4-1",
		"anthropic-claude-sonnet-4-20250514-v1:0":   "^anthropic-*-4-20250514",
		"anthropic-claude-opus-4-0":                 "^anthropic-*-4-0",
		"anthropic-claude-opus-4-5-20251101-v1:0":   "^anthropic-*opus-4-5",
		"anthropic-claude-haiku-4-5-20251001-v1:0":  "^anthropic-*-4-5",
		"anthropic-claude-opus-4-6-v1":              "^anthropic-*-4-6",
		"anthropic-claude-opus-4-7":                 "^anthropic-",
		"amazon-nova-2-omni-v1:0":                   "^amazon-nova*omni",
		"amazon-nova-2-sonic-v1:0":                  "^amazon-nova*sonic",
		"amazon-nova-2-lite-v1:0":                   "^amazon-nova-#",
		"amazon-nova-3-pro-v1:0":                    "^amazon-nova-#",
		"amazon-nova-pro-3-v1:0":                    "^amazon-nova-*-#",
		"amazon-nova-premier-2-v1:0":                "^amazon-nova-*-#",
		"amazon-nova-pro-v1:0":                      "^amazon-nova",
		"amazon-titan-text-express-v1":              "^amazon-titan-text-express",
		"amazon-titan-text-lite-v1":                 "^amazon-titan-text-lite",
		"amazon-titan-text-premier-v1:0":            "^amazon-titan-text-premier",
		"amazon-titan-text-other":                   "^amazon-titan-text",
		"mistral-mistral-7b-instruct-v0:2":          "^mistral-mistral-7b",
		"mistral-mixtral-8x7b-instruct-v0:1":        "^mistral-*mixtral",
		"mistral-mistral-large-3-675b-instruct":     "^mistral-*large-#",
		"mistral-mistral-large-4-800b-instruct":     "^mistral-*large-#",
		"mistral-mistral-large-2407-v1:0":           "^mistral-*large",
		"mistral-pixtral-large-2502-v1:0":           "^mistral-*large",
		"mistral-ministral-3-8b-instruct":           "^mistral-*ministral",
		"mistral-magistral-small-2509":              "^mistral-*magistral",
		"mistral-voxtral-mini-3b-2507":              "^mistral-*voxtral",
		"openai-gpt-oss-120b-1:0":                   "^openai-",
		"qwen-qwen3-32b-v1:0":                       "^qwen-",
		"deepseek-r1-v1:0":                          "^deepseek-r1",
		"deepseek-v3-v1:0":                          "*",
		"ai21-j2-ultra-v1":                          "^ai21-j2",
		"ai21-jamba-1-5-large-v1:0":                 "^ai21-",
		"amazon-other":                              "^amazon-",
		"meta-llama3-3-70b-instruct-v1:0":           "^meta-",
		"mistral-devstral-2":                        "^mistral-",
		"cohere-command-r-v1:0":                     "^cohere-",
		"writer-palmyra-x5-v1:0":                    "^writer-",
		"twelvelabs-pegasus-1-2-v1:0":               "^twelvelabs-",
		"luma-ray-v2:0":                             "^luma-",
	}},
	"DeepSeek": {modeldata.DeepSeek, map[string]string{
		"deepseek-reasoner":             "^deepseek-reasoner",
		"deepseek-ai/DeepSeek-V4-Flash": "^deepseek-v#",
		"deepseek-v5":                   "^deepseek-v#",
		"deepseek-v3.1":                 "^deepseek-v3",
		"deepseek-v2.5":                 "^deepseek-v2",
		"deepseek-chat":                 "",
	}},
	"Groq": {modeldata.Groq, map[string]string{
		"openai/gpt-oss-20b":      "gpt-oss",
		"qwen/qwen3-32b":          "qwen",
		"llama-3.3-70b-versatile": "*",
	}},
	"Mistral": {modeldata.Mistral, map[string]string{
		"mistral-small-latest": "^mistral-small",
		"mistral-medium-3.5":   "^mistral-medium",
		"mistral-large-latest": "*",
	}},
	"XAI": {modeldata.XAI, map[string]string{
		"grok-2-vision":              "^grok-2",
		"grok-3-mini-fast":           "^grok-3-mini",
		"grok-3":                     "^grok-3",
		"grok-4-0709":                "^grok-4-0709",
		"grok-4-latest":              "^grok-4",
		"grok-4-fast-reasoning":      "^grok-4-fast",
		"grok-4.1-fast":              "^grok-4-1",
		"grok-4.20-0309-reasoning":   "^grok-4-20",
		"grok-4.20-multi-agent-0309": "^grok-4-20*multi-agent",
		"grok-4.3":                   "^grok-4-3",
		"x-ai/grok-4.5":              "^grok-4-5",
		"grok-4.6":                   "^grok-4-6",
		"grok-4.7":                   "^grok-4-#",
		"grok-code-fast-1":           "^grok-code",
		"grok-build":                 "^grok-build",
		"grok-composer-2.5-fast":     "^grok-composer",
		"grok-latest":                "^grok-",
	}},
	"Vertex": {modeldata.Vertex, map[string]string{
		"claude-sonnet-4-5@20250929": "^claude",
		"mistral-medium-3":           "^mistral",
		"codestral-2":                "^codestral",
		"gemini-3-pro":               "",
	}},
}

func TestEachRowIsTheRuleForAModel(t *testing.T) {
	for vendor, tt := range names {
		used := map[string]bool{}
		for name, want := range tt.names {
			m := tt.table.Of(name)
			if m.Pattern != want {
				t.Errorf("%s: the row for %s is %q, want %q", vendor, name, m.Pattern, want)
			}
			used[m.Pattern] = true
		}
		for _, m := range tt.table {
			if !used[m.Pattern] {
				t.Errorf("%s: no name here has the row %q", vendor, m.Pattern)
			}
		}
	}
}

// A version that is newer than the table gets the rules of the newest family that
// it has, not those of an older one whose name it begins with. Its limit of output
// tokens is unknown: clients may ask for more than the newest family has.
func TestUnknownVersionsHaveTheRulesOfTheNewestFamily(t *testing.T) {
	for _, tt := range []struct {
		table           modeldata.Table
		unknown, newest string
	}{
		{modeldata.OpenAI, "gpt-5.7", "gpt-5.6-sol"},
		{modeldata.OpenAI, "gpt-6", "gpt-5.6-sol"},
		{modeldata.OpenAI, "o7-mini", "o4-mini"},
		{modeldata.Anthropic, "claude-opus-4-9", "claude-opus-5"},
		{modeldata.Anthropic, "claude-opus-6", "claude-opus-5"},
		{modeldata.Google, "gemini-4-pro", "gemini-3.1-pro-preview"},
		{modeldata.Google, "gemini-4-flash", "gemini-3.6-flash"},
		{modeldata.Google, "gemini-embedding-3", "gemini-embedding-2"},
		{modeldata.Bedrock, "anthropic-claude-opus-6-v1", "anthropic-claude-opus-5-v1"},
		{modeldata.Bedrock, "amazon-nova-3-lite-v1:0", "amazon-nova-2-lite-v1:0"},
		{modeldata.Bedrock, "mistral-mistral-large-4-instruct", "mistral-mistral-large-3-675b-instruct"},
		{modeldata.DeepSeek, "deepseek-v5", "deepseek-v4"},
		{modeldata.XAI, "grok-6", "grok-4.6"},
		{modeldata.XAI, "grok-4.9", "grok-4.6"},
	} {
		unknown, newest := *tt.table.Of(tt.unknown), *tt.table.Of(tt.newest)
		if !unknown.HasRow() || unknown.Thinking != newest.Thinking || !slices.Equal(unknown.Efforts, newest.Efforts) || unknown.MaxOutput != 0 || unknown.DefaultOutput != 0 && unknown.DefaultOutput != newest.MaxOutput ||
			unknown.NoSampling != newest.NoSampling || unknown.Structured != newest.Structured || unknown.Method != newest.Method || unknown.KeepsThinking != newest.KeepsThinking ||
			!slices.Equal(unknown.Dialects, newest.Dialects) || !slices.Equal(unknown.Drop, newest.Drop) {
			t.Errorf("%s has the row %q, which differs from that of %s, %q", tt.unknown, unknown.Pattern, tt.newest, newest.Pattern)
		}
	}
}

func TestEachRowHasItsSourceAndDate(t *testing.T) {
	for vendor, tt := range names {
		var patterns []string
		for _, m := range tt.table {
			if u, err := url.Parse(m.Source); err != nil || u.Scheme != "https" {
				t.Errorf("%s %s: the source %q is not an https address", vendor, m.Pattern, m.Source)
			}
			if d, err := time.Parse(time.DateOnly, m.Read); err != nil || d.After(time.Now()) {
				t.Errorf("%s %s: read on %q, want a past date", vendor, m.Pattern, m.Read)
			}
			if slices.Contains(patterns, m.Pattern) {
				t.Errorf("%s: the pattern %s occurs twice", vendor, m.Pattern)
			}
			patterns = append(patterns, m.Pattern)
		}
	}
}

// Clients choose names: a long one costs nothing and matches nothing.
func TestLongNamesMatchNoRow(t *testing.T) {
	if m := modeldata.OpenAI.Of("gpt-5-" + strings.Repeat("x", 1<<20)); m.HasRow() {
		t.Errorf("a name of a megabyte has the row %q", m.Pattern)
	}
}

// An effort that the model does not accept becomes the next lower one, or the
// least.
func TestEffortIsTheNearestThatTheModelAccepts(t *testing.T) {
	for _, tt := range []struct{ model, effort, want string }{
		{"gpt-5.6-sol", "max", "max"},
		{"gpt-5.4", "max", "xhigh"},
		{"gpt-5.1", "xhigh", "high"},
		{"gpt-5.1", "minimal", "none"},
		{"gpt-5", "none", "minimal"},
		{"o3", "none", "low"},
		{"gpt-5-pro", "low", "high"},
		{"gpt-5", "", ""},
		{"gpt-5", "enormous", "enormous"},
		{"gpt-4o", "high", "high"},
		{"our-deployment", "max", "max"},
	} {
		if got := modeldata.OpenAI.Of(tt.model).Effort(tt.effort); got != tt.want {
			t.Errorf("%s: effort %q becomes %q, want %q", tt.model, tt.effort, got, tt.want)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		modeldata.OpenAI.Of("gpt-5.6-sol")
	}
}

// A field that no row sets has no effect.
func TestEachFieldIsSetByARow(t *testing.T) {
	typ := reflect.TypeFor[modeldata.Model]()
	for i := range typ.NumField() {
		set := false
		for _, tt := range names {
			set = set || slices.ContainsFunc(tt.table, func(m modeldata.Model) bool { return !reflect.ValueOf(m).Field(i).IsZero() })
		}
		if !set {
			t.Errorf("no row sets %s: remove the field", typ.Field(i).Name)
		}
	}
}
