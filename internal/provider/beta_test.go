package provider_test

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// A host that serves another vendor's models refuses beta flags it does not
// know, so each gets those it takes, and what is left out is reported.
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
		for _, spelling := range []string{"Anthropic-Beta", "anthropic-beta"} { // a forwarded header keeps that of its config
			t.Run(tt.id+" "+spelling, func(t *testing.T) {
				spec, _ := table.Lookup(tt.id)
				target, err := provider.NewTarget(spec, provider.Settings{Key: secret.New("k"), Options: tt.options})
				if err != nil {
					t.Fatal(err)
				}
				call := provider.Call{Operation: api.Proxy, Method: http.MethodPost, Path: "/messages", Header: http.Header{spelling: {sent}}}
				req, err := provider.NewRequest(t.Context(), target, &call)
				if err != nil {
					t.Fatal(err)
				}
				if got := req.Header[spelling]; !slices.Equal(got, []string{tt.want}) {
					t.Errorf("sent %q, want %q", got, tt.want)
				}
				if !slices.Equal(call.DroppedBetas, tt.dropped) {
					t.Errorf("told as dropped: %q, want %q", call.DroppedBetas, tt.dropped)
				}
			})
		}
	}
}

// A provider would have to choose between two spellings of one header.
func TestOptionsAndDefaultsKeepTheSpellingOfAForwardedHeader(t *testing.T) {
	spec, _ := table.Lookup("anthropic")
	for _, tt := range []struct {
		name     string
		options  map[string]string
		header   http.Header
		want     http.Header
		replaced []provider.ReplacedHeader
	}{
		{"the default version", nil, http.Header{"anthropic-version": {"2024-01-01"}}, http.Header{"anthropic-version": {"2024-01-01"}}, nil},
		{"an option", map[string]string{"version": "2025-01-01"}, http.Header{"anthropic-version": {"2024-01-01"}},
			http.Header{"anthropic-version": {"2025-01-01"}}, []provider.ReplacedHeader{{Name: "Anthropic-Version", Option: "version"}}},
		{"an option with the same value", map[string]string{"version": "2025-01-01"}, http.Header{"Anthropic-Version": {"2025-01-01"}},
			http.Header{"Anthropic-Version": {"2025-01-01"}}, nil},
		{"beta flags", map[string]string{"beta": "a,b"}, http.Header{"anthropic-beta": {"b,c"}},
			http.Header{"anthropic-beta": {"a,b,c"}, "Anthropic-Version": {"2023-06-01"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target, err := provider.NewTarget(spec, provider.Settings{Options: tt.options})
			if err != nil {
				t.Fatal(err)
			}
			call := provider.Call{Operation: api.Messages, Method: http.MethodPost, Header: tt.header}
			req, err := provider.NewRequest(t.Context(), target, &call)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(req.Header, tt.want) || !slices.Equal(call.Replaced, tt.replaced) {
				t.Errorf("sent %q and replaced %q, want %q and %q", req.Header, call.Replaced, tt.want, tt.replaced)
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
		for _, spelling := range []string{"Anthropic-Beta", "anthropic-beta"} {
			t.Run(tt.id+" "+spelling, func(t *testing.T) {
				spec, _ := table.Lookup(tt.id)
				h := http.Header{spelling: {"interleaved-thinking-2025-05-14, files-api-2025-04-14"}}
				field, taken, dropped := spec.BodyBetas(api.Messages, h)
				if field != tt.field || !slices.Equal(taken, tt.taken) || !slices.Equal(dropped, tt.dropped) || strings.Join(h[spelling], "") != tt.left {
					t.Errorf("field %q, taken %q, dropped %q, left %q", field, taken, dropped, h)
				}
			})
		}
	}
}
