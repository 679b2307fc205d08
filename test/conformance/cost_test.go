package conformance

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// billed answers in the protocol of the path: 1,000 tokens were read, 400 of them
// from a cache, and 100 written.
func billed(w http.ResponseWriter, _ *http.Request, in received) {
	w.Header().Set("Content-Type", "application/json")
	path, _, _ := strings.Cut(in.uri, "?")
	body := `{"id":"c","object":"chat.completion","created":1,"model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400}}}`
	switch {
	case strings.Contains(string(in.body), `"stream":true`):
		w.Header().Set("Content-Type", "text/event-stream")
		body = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}` + "\n\n" +
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"served","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400}}}` + "\n\ndata: [DONE]\n\n"
	case strings.HasSuffix(path, "/messages"):
		body = `{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,` +
			`"usage":{"input_tokens":600,"cache_read_input_tokens":400,"cache_creation_input_tokens":0,"output_tokens":100}}`
	case strings.HasSuffix(path, ":generateContent"):
		body = `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"modelVersion":"served",` +
			`"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":400,"candidatesTokenCount":100,"totalTokenCount":1100}}`
	}
	fmt.Fprint(w, body)
}

func chatOf(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"x"}]}`
}

func TestRequestsCostWhatTheirProvidersSay(t *testing.T) {
	g := newInternet(t, map[string]behaviour{"*": billed}).live(t, "")
	// Cents: 600 tokens, 400 cached ones and 100 written, times dollars for a
	// million, by 10,000.
	for _, tt := range []struct{ provider, model, cents string }{
		{"openai", "gpt-4.1-mini", "0.044"},                               // 600 × 0.4 + 400 × 0.1 + 100 × 1.6
		{"anthropic", "claude-haiku-4-5", "0.114"},                        // 600 × 1 + 400 × 0.1 + 100 × 5
		{"google", "gemini-2.5-flash", "0.0442"},                          // 600 × 0.3 + 400 × 0.03 + 100 × 2.5
		{"mistral-ai", "mistral-large-2512", "0.047"},                     // 600 × 0.5 + 400 × 0.05 + 100 × 1.5
		{"groq", "openai/gpt-oss-120b", "0.018"},                          // 600 × 0.15 + 400 × 0.075 + 100 × 0.6
		{"x-ai", "grok-3", "0.36"},                                        // 600 × 3 + 400 × 0.75 + 100 × 15
		{"together-ai", "deepseek-ai/DeepSeek-V3.1", "0.077"},             // 1000 × 0.6 + 100 × 1.7
		{"fireworks-ai", "accounts/fireworks/models/kimi-k2p6", "0.1034"}, // 600 × 0.95 + 400 × 0.16 + 100 × 4
		{"perplexity-ai", "sonar-pro", "1.05"},                            // 1000 × 3 + 100 × 15, and 0.6 for the request
		{"cerebras", "gpt-oss-120b", "0.0425"},                            // 1000 × 0.35 + 100 × 0.75
		{"openai", "a-model-that-nobody-has", ""},
	} {
		prove(t, "S-530", tt.provider+" "+tt.model, func(t *testing.T) {
			got := g.do(t, "POST", "/v1/chat/completions", chatOf(tt.model), managed(tt.provider, "Authorization", "Bearer "+credential)...).wantOK(t)
			cost := ""
			if n, ok := g.entry(t, got)["cost"].(json.Number); ok {
				cost = n.String()
			}
			if cost != tt.cents {
				t.Errorf("the request cost %q cents, want %q", cost, tt.cents)
			}
		})
	}
	prove(t, "S-530", "a stream costs what a response does", func(t *testing.T) {
		body := strings.Replace(chatOf("gpt-4.1-mini"), "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)
		got := g.do(t, "POST", "/v1/chat/completions", body, managed("openai", "Authorization", "Bearer "+credential)...).wantOK(t)
		if cost := g.entry(t, got)["cost"]; cost != json.Number("0.044") {
			t.Errorf("the stream cost %v cents, want 0.044", cost)
		}
	})
}

func TestReservedCapacityCostsNothing(t *testing.T) {
	n := newInternet(t, map[string]behaviour{"*": billed})
	n.env = append(n.env, "MODELGATE_MASTER_KEY=the master key of a conformance test")
	g := n.live(t, "")
	for option, want := range map[string]any{"": json.Number("0.0442"), `,"skipPtuCostAttribution":true`: json.Number("0"), `,"skipPtuCostAttribution":false`: json.Number("0.0442")} {
		prove(t, "S-557", "with "+option, func(t *testing.T) {
			made := g.as(t, bootstrapKey, "POST", "/v1/integrations", `{"name":"Reserved","ai_provider_id":"vertex-ai","key":"ya29.token","workspace_id":"default",`+
				`"configurations":{"cloud_b_auth_type":"basic","cloud_b_region":"global","cloud_b_project_id":"p"`+option+`}}`).wantOK(t).object(t)
			g.as(t, bootstrapKey, "PUT", "/v1/integrations/"+fmt.Sprint(made["slug"])+"/models",
				`{"allow_all_models":true,"models":[{"slug":"tuned","enabled":true,"is_custom":true,"base_model_slug":"gemini-2.5-flash"}]}`).wantOK(t)
			for _, model := range []string{"gemini-2.5-flash", "tuned"} {
				got := g.do(t, "POST", "/v1/chat/completions", chatOf(model), managed("@"+fmt.Sprint(made["slug"]))...).wantOK(t)
				if cost := g.entry(t, got)["cost"]; cost != want {
					t.Errorf("a request for %s cost %v cents, want %v", model, cost, want)
				}
			}
		})
	}
}

func TestPricesComeWithTheProgram(t *testing.T) {
	g, _ := start(t)
	file, err := os.Open("../../internal/model/catalog/prices.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.Comment, r.FieldsPerRecord = '#', -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	models := map[string][]string{}
	for _, row := range rows[1:] {
		if !strings.HasSuffix(row[1], "*") && len(row) > 5 && row[4] != "" && row[5] != "" { // sold by tokens
			models[row[0]] = append(models[row[0]], row[1])
		}
	}
	known := map[string]bool{}
	for _, id := range []string{"openai", "mistral-ai", "groq", "x-ai", "together-ai", "fireworks-ai", "moonshot", "google", "cerebras", "z-ai", "perplexity-ai"} {
		prove(t, "S-041", "of "+id, func(t *testing.T) {
			if len(models[id]) == 0 {
				t.Error("no prices of its models are listed")
			}
			for _, model := range models[id] {
				e := g.explained(t, node(`"provider":"`+id+`"`, `"api_key":"k"`), `"body":`+chatOf(model))
				if price, ok := at(e, "estimate", "price").(json.Number); ok {
					known[id+" "+model] = true
				} else {
					t.Errorf("%s is estimated to cost %v", model, price)
				}
			}
		})
	}
	prove(t, "S-041", "more than 250", func(t *testing.T) {
		if len(known) <= 250 {
			t.Errorf("the program knows the prices of %d models, want more than 250", len(known))
		}
	})
}
