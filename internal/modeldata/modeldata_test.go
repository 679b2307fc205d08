package modeldata_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"modelgate/internal/modeldata"
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
		"o1-pro-2025-03-19":                 "^o*-pro",
		"o3-pro":                            "^o*-pro",
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
		"gpt-4.1-nano":                      "^gpt-4",
		"gpt-4o":                            "^gpt-4",
		"ft:gpt-4o-mini-2024-07-18:acme::1": "^gpt-4",
		"openai.gpt-oss-120b-1:0":           "^gpt-oss",
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
		"gpt-5.12":                          "^gpt-5",
		"gpt-6-astra":                       "^gpt-",
		"gpt-51":                            "^gpt-",
		"gpt-4o-prod":                       "^gpt-4",
		"our-deployment":                    "",
		"o12":                               "",
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
		"claude-sonnet-4.5":  "*",
		"gemini-3.1-pro":     "*",
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
