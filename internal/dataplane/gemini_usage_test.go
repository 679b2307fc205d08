package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// geminiUsage is a frame of a gemini stream with this usage.
func geminiUsage(text, finish, usage string) string {
	return fmt.Sprintf("data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":%q}]}%s,\"index\":0}],\"modelVersion\":\"m\",\"usageMetadata\":{%s}}\r\n\r\n", text, finish, usage)
}

// The last snapshot is the bill: Google corrects earlier ones, also downwards,
// and leaves fields out of it that have not changed.
func TestUsageOfGeminiStreamsIsTheLastSnapshot(t *testing.T) {
	t.Parallel()
	const stop = `,"finishReason":"STOP"`
	for _, tt := range []struct {
		name, first, last                   string
		prompt, completion, reasoning, hits float64
	}{
		{"corrected downwards", `"promptTokenCount":20,"candidatesTokenCount":9,"thoughtsTokenCount":30,"totalTokenCount":59`,
			`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"totalTokenCount":22`, 10, 12, 7, 0},
		{"a field that the last lacks", `"promptTokenCount":10,"cachedContentTokenCount":4,"thoughtsTokenCount":7,"totalTokenCount":17`,
			`"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":22`, 10, 12, 7, 4},
		{"no count of candidates", `"promptTokenCount":10,"totalTokenCount":10`, `"promptTokenCount":10,"thoughtsTokenCount":7,"totalTokenCount":22`, 10, 12, 7, 0},
		{"no count of thoughts", `"promptTokenCount":10,"totalTokenCount":10`, `"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":22`, 10, 12, 7, 0},
		{"thoughts among the candidates", `"promptTokenCount":10,"totalTokenCount":10`, `"promptTokenCount":10,"candidatesTokenCount":12,"thoughtsTokenCount":7,"totalTokenCount":22`, 10, 12, 7, 0},
		{"results of tools", `"promptTokenCount":10,"totalTokenCount":10`, `"promptTokenCount":10,"candidatesTokenCount":5,"toolUsePromptTokenCount":3,"thoughtsTokenCount":7,"totalTokenCount":25`, 13, 12, 7, 0},
	} {
		response := sseOf(geminiUsage("a", "", tt.first), geminiUsage("b", stop, tt.last))
		for _, client := range []clientFormat{clientFormats[0], clientFormats[3]} {
			for _, stream := range []bool{true, false} {
				if !stream && client.name == "gemini" {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, stream %t", tt.name, client.name, stream), func(t *testing.T) {
					g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: raw(response)})
					res := client.send(t, g, "@gemini", "gemini-2.5-flash", stream)
					e := g.Entry(res)
					for path, want := range map[string]float64{"prompt_tokens": tt.prompt, "completion_tokens": tt.completion, "total_tokens": tt.prompt + tt.completion,
						"reasoning_tokens": tt.reasoning, "cached_tokens": tt.hits} {
						if got := at(e, "usage."+path); got != want && (got != nil || want != 0) {
							t.Errorf("recorded %s %v, want %v", path, got, want)
						}
					}
					if client.name == "chat" && !strings.Contains(string(res.Body), fmt.Sprintf(`"total_tokens":%.0f`, tt.prompt+tt.completion)) {
						t.Errorf("the client has another total than %.0f: %s", tt.prompt+tt.completion, res.Body)
					}
				})
			}
		}
	}
}
