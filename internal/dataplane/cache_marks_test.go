package dataplane_test

import (
	"fmt"
	"strings"
	"testing"
)

// Providers reject more than four cache marks; clients of other protocols may send any
// number. The first stays, and the last ones do.
func TestTranslatedRequestsHaveAtMostFourCacheMarks(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	const mark = `"cache_control":{"type":"ephemeral"}`
	for _, target := range []struct{ slug, model, mark string }{
		{"@messages", "claude-opus-4-1", `"cache_control"`},
		{"@converse", "us.anthropic.claude-opus-4-1-20250805-v1:0", `"cachePoint"`},
	} {
		for n := 1; n <= 9; n++ {
			for _, stream := range []bool{false, true} {
				var list []string
				for i := range n {
					role := []string{"system", "user", "assistant"}[min(i, 1+(i+1)%2)]
					list = append(list, fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":"text %d",%s}]}`, role, i, mark))
				}
				list = append(list, `{"role":"user","content":"more"}`)
				res := g.Post("/chat/completions", fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":100,"messages":[%s]}`, target.model, stream, strings.Join(list, ",")), "x-gateway-provider", target.slug)
				sent := strings.Join(up.took(), "")
				if got := strings.Count(sent, target.mark); res.Status != 200 || got != min(n, 4) {
					t.Errorf("%s, %d marks, stream %t: status %d, %d marks sent, want %d: %s", target.slug, n, stream, res.Status, got, min(n, 4), sent)
				}
				if said := strings.Contains(res.Header.Get("X-Gateway-Params"), `cache_control;adapted="four marks`); said != (n > 4) {
					t.Errorf("%s, %d marks: announced %q", target.slug, n, res.Header.Get("X-Gateway-Params"))
				}
				if n != 6 {
					continue
				}
				for i := range n { // the mark follows its text in both protocols
					_, rest, _ := strings.Cut(sent, fmt.Sprintf("text %d", i))
					before, _, _ := strings.Cut(rest, `"text":`)
					if has, want := strings.Contains(before, target.mark), i == 0 || i > 2; has != want {
						t.Errorf("%s: text %d has a mark: %t, want %t: %s", target.slug, i, has, want, sent)
					}
				}
			}
		}
	}
}

// A mark of the whole prompt is one of the four, and a deferred tool has none.
func TestCacheMarksThatProvidersRejectAreLeftOut(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	const mark = `"cache_control":{"type":"ephemeral"}`
	text := strings.Repeat(`{"type":"text","text":"a",`+mark+`},`, 4)
	for _, tt := range []struct {
		name, members string
		marks         int
		said          string
	}{
		{"the prompt", mark + `,"messages":[{"role":"user","content":[` + strings.TrimSuffix(text, ",") + `]}]`, 4, "adapted"},
		{"a deferred tool", `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}},"defer_loading":true,` + mark + `},` +
			`{"type":"function","function":{"name":"g","parameters":{"type":"object"}},` + mark + `}],"messages":[{"role":"user","content":"a"}]`, 1, "dropped"},
	} {
		res := g.Post("/chat/completions", `{"model":"claude-opus-4-1","max_tokens":100,`+tt.members+`}`, "x-gateway-provider", "@messages")
		sent := strings.Join(up.took(), "")
		if got := strings.Count(sent, `"cache_control"`); res.Status != 200 || got != tt.marks || !strings.Contains(res.Header.Get("X-Gateway-Params"), "cache_control;"+tt.said) {
			t.Errorf("%s: status %d, %d marks sent, want %d, announced %q: %s", tt.name, res.Status, got, tt.marks, res.Header.Get("X-Gateway-Params"), sent)
		}
	}
}
