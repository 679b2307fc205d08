package provider_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"modelgate/internal/provider/table"
)

func TestHeadersOfOtherVendorsStayBehind(t *testing.T) {
	all := http.Header{
		"Openai-Organization": {"org"}, "Openai-Beta": {"b"}, "Anthropic-Beta": {"b"}, "Anthropic-Version": {"v"},
		"X-Goog-User-Project": {"p"}, "X-Amzn-Bedrock-Trace": {"t"}, "X-Ms-Client-Request-Id": {"i"}, "X-Custom": {"c"},
	}
	for _, tt := range []struct {
		id   string
		want []string
	}{
		{"openai", []string{"Openai-Beta", "Openai-Organization", "X-Custom"}},
		{"groq", []string{"Openai-Beta", "Openai-Organization", "X-Custom"}},
		{"anthropic", []string{"Anthropic-Beta", "Anthropic-Version", "X-Custom"}},
		{"google", []string{"X-Custom", "X-Goog-User-Project"}},
		{"bedrock", []string{"Anthropic-Beta", "Anthropic-Version", "X-Amzn-Bedrock-Trace", "X-Custom"}},
		{"azure-ai", []string{"Anthropic-Beta", "Anthropic-Version", "Openai-Beta", "Openai-Organization", "X-Custom", "X-Ms-Client-Request-Id"}},
		{"cohere", []string{"X-Custom"}},
	} {
		t.Run(tt.id, func(t *testing.T) {
			spec, ok := table.Lookup(tt.id)
			if !ok {
				t.Fatal("no such row")
			}
			h := all.Clone()
			spec.DropOtherVendorHeaders(h)
			if got := slices.Sorted(maps.Keys(h)); !slices.Equal(got, tt.want) {
				t.Errorf("headers left: %v, want %v", got, tt.want)
			}
		})
	}
}
