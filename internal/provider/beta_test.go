package provider_test

import (
	"net/http"
	"slices"
	"testing"

	"modelgate/api"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/secret"
)

// A host that serves another vendor's models refuses beta flags it does not
// know, so each gets those it takes, and what is left out is told.
func TestBetaFlagsAreThoseThatTheHostTakes(t *testing.T) {
	const sent = "interleaved-thinking-2025-05-14, files-api-2025-04-14,advanced-tool-use-2025-11-20 ,, fast-mode-2026-02-01"
	for _, tt := range []struct {
		id      string
		options map[string]string
		want    string
		dropped []string
	}{
		{"anthropic", nil, sent, nil},
		{"bedrock", map[string]string{"region": "eu-west-1"}, "interleaved-thinking-2025-05-14,tool-search-tool-2025-10-19", []string{"files-api-2025-04-14", "fast-mode-2026-02-01"}},
		{"vertex-ai", map[string]string{"region": "europe-west1", "project_id": "p"}, "interleaved-thinking-2025-05-14", []string{"files-api-2025-04-14", "advanced-tool-use-2025-11-20", "fast-mode-2026-02-01"}},
		{"azure-ai", map[string]string{"resource_name": "r"}, "interleaved-thinking-2025-05-14,files-api-2025-04-14,advanced-tool-use-2025-11-20", []string{"fast-mode-2026-02-01"}},
	} {
		t.Run(tt.id, func(t *testing.T) {
			spec, _ := table.Lookup(tt.id)
			target, err := provider.NewTarget(spec, provider.Settings{Key: secret.New("k"), Options: tt.options})
			if err != nil {
				t.Fatal(err)
			}
			call := provider.Call{Operation: api.Proxy, Method: http.MethodPost, Path: "/messages", Header: http.Header{"Anthropic-Beta": {sent}}}
			req, err := provider.NewRequest(t.Context(), target, &call)
			if err != nil {
				t.Fatal(err)
			}
			if got := req.Header.Get("Anthropic-Beta"); got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
			if !slices.Equal(call.DroppedBetas, tt.dropped) {
				t.Errorf("told as dropped: %q, want %q", call.DroppedBetas, tt.dropped)
			}
		})
	}
}

func TestBetaFlagsMoveToTheBodyWhereTheHostReadsThemThere(t *testing.T) {
	for _, tt := range []struct {
		id             string
		field          string
		taken, dropped []string
		left           string
	}{
		{"bedrock", "anthropic_beta", []string{"interleaved-thinking-2025-05-14"}, []string{"files-api-2025-04-14"}, ""},
		{"anthropic", "", nil, nil, "interleaved-thinking-2025-05-14, files-api-2025-04-14"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			spec, _ := table.Lookup(tt.id)
			h := http.Header{"Anthropic-Beta": {"interleaved-thinking-2025-05-14, files-api-2025-04-14"}}
			field, taken, dropped := spec.BodyBetas(api.Messages, h)
			if field != tt.field || !slices.Equal(taken, tt.taken) || !slices.Equal(dropped, tt.dropped) || h.Get("Anthropic-Beta") != tt.left {
				t.Errorf("field %q, taken %q, dropped %q, left %q", field, taken, dropped, h.Get("Anthropic-Beta"))
			}
		})
	}
}
