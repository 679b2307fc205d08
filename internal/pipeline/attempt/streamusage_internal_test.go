package attempt

import (
	"bytes"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// hidden returns the stream as a client sees it whose gateway asked for usage.
func hidden(t *testing.T, stream string) string {
	t.Helper()
	var h usageHider
	var out bytes.Buffer
	r := sse.NewReader(strings.NewReader(stream), 1<<20)
	for {
		e, err := r.Next()
		if err != nil {
			return out.String()
		}
		out.Write(h.hide(e).Raw)
	}
}

func TestHiderRemovesOnlyWhatTheRequestForUsageAdded(t *testing.T) {
	const chunk = "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"the \\\"usage\\\"\"}}]}\n\n"
	for _, tt := range []struct{ name, stream, want string }{
		{"own chunk", chunk + "data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"total_tokens\":3}}\n\ndata: [DONE]\n\n", chunk + "data: [DONE]\n\n"},
		{"null in each chunk", "data: {\"id\":\"1\",\"choices\":[{\"delta\":{}}],\"usage\":null}\n\n", "data: {\"id\":\"1\",\"choices\":[{\"delta\":{}}]}\n\n"},
		{"null before other members", "data: {\"usage\":null, \"id\":\"1\",\"choices\":[{}]}\r\n\r\n", "data: {\"id\":\"1\",\"choices\":[{}]}\r\n\r\n"},
		{"in the last chunk with content", "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"total_tokens\":3}}\n\n", "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"},
		{"first chunk of Azure", "data: {\"choices\":[],\"prompt_filter_results\":[],\"usage\":null}\n\n", "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n"},
		{"comments stay", ": waiting\n\n: more\ndata: {\"choices\":[],\"usage\":{}}\n\n" + chunk, ": waiting\n\n: more\n" + chunk},
		{"content that speaks of usage", chunk, chunk},
		{"usage deeper down", "data: {\"choices\":[{\"usage\":null}]}\n\n", "data: {\"choices\":[{\"usage\":null}]}\n\n"},
		{"not JSON", "data: {\"usage\":\n\n", "data: {\"usage\":\n\n"},
		{"an error", "data: {\"error\":{\"message\":\"usage\"}}\n\n", "data: {\"error\":{\"message\":\"usage\"}}\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hidden(t, tt.stream); got != tt.want {
				t.Errorf("the client sees %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUsageIsRequestedOnlyWhereTheClientDidNotAndTheProviderKnowsHow(t *testing.T) {
	const asks = `{"include_usage":true}`
	row := func(change func(s *provider.Spec)) *provider.Target {
		s := &provider.Spec{ID: "p"}
		change(s)
		return &provider.Target{Spec: s}
	}
	plain := row(func(*provider.Spec) {})
	for _, tt := range []struct {
		name   string
		op     api.Operation
		target *provider.Target
		drop   string
		body   string
		want   string // empty for no request
	}{
		{"plain", api.Chat, plain, "", `{"stream":true}`, asks},
		{"text completion", api.Completions, plain, "", `{"stream":true}`, asks},
		{"null", api.Chat, plain, "", `{"stream_options":null}`, asks},
		{"false", api.Chat, plain, "", `{"stream_options":{"include_usage":false,"x":1}}`, `{"include_usage":true,"x":1}`},
		{"other option", api.Chat, plain, "", `{"stream_options":{"include_obfuscation":false}}`, `{"include_obfuscation":false,"include_usage":true}`},
		{"the client asks", api.Chat, plain, "", `{"stream_options": { "include_usage" : true }}`, ""},
		{"reported unasked", api.Chat, row(func(s *provider.Spec) { s.UsageUnasked = true }), "", `{}`, ""},
		{"dropped by the provider definition", api.Chat, row(func(s *provider.Spec) { s.Drop = []string{"stream_options"} }), "", `{}`, ""},
		{"dropped by the config", api.Chat, plain, "stream_options", `{}`, ""},
		{"another option dropped by the config", api.Chat, plain, "stream", `{}`, asks},
		{"another dialect", api.Messages, plain, "", `{}`, ""},
		{"embeddings", api.Embeddings, plain, "", `{}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var doc jsonedit.Doc
			if err := doc.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			l := &TargetHandler{}
			if tt.drop != "" {
				p, _ := jsonedit.ParsePath(tt.drop)
				l.Params.Drop = append(l.Params.Drop, p)
			}
			edit, asked := (&attempt{plan: plan{record: exchange.Attempt{Target: tt.target}, handler: l, request: &exchange.Request{Stream: true}, wire: wirePlan{op: tt.op}}}).plan.usageRequest(&doc, nil)
			if string(edit.Value) != tt.want || asked != (tt.want != "") {
				t.Errorf("usageRequest(%s) = %s, %t; want %q", tt.body, edit.Value, asked, tt.want)
			}
			if _, asked := (&attempt{plan: plan{record: exchange.Attempt{Target: tt.target}, handler: l, request: &exchange.Request{}, wire: wirePlan{op: tt.op}}}).plan.usageRequest(&doc, nil); asked {
				t.Error("usage was requested for a response that is not a stream")
			}
		})
	}
}
