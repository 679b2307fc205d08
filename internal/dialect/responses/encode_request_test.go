package responses_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// fromMessages is a request as a client of the messages dialect sends it.
func fromMessages() *llm.Request {
	signed := func(vendor llm.Vendor, value string) llm.Signature {
		return llm.Signature{Vendor: vendor, Value: value}
	}
	return &llm.Request{
		Dialect: "messages", Names: map[llm.Field]string{llm.FieldStop: "stop_sequences"}, Model: "claude",
		Messages: []llm.Message{
			{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "Be kind.", Cache: &llm.Cache{}}}, At: "system"},
			{Role: llm.User, Parts: []llm.Part{
				llm.Text{Text: "Look"},
				llm.Media{Kind: llm.Document, Type: "application/pdf", Data: "JVBE", Name: "a.pdf"},
				llm.Media{Kind: llm.Document, Text: "plain", Name: "notes"},
			}},
			{Role: llm.Assistant, Parts: []llm.Part{
				llm.Thinking{Text: "lost", Signature: signed(llm.Anthropic, "A")},
				llm.Thinking{Text: "kept", Signature: signed(llm.OpenAI, "O")},
				llm.Text{Text: "I call."},
				llm.Native{Dialect: "messages", Type: "server_tool_use", Raw: json.RawMessage(`{}`)},
				llm.ToolCall{ID: "t1", Name: "f"},
			}},
			{Role: llm.User, Parts: []llm.Part{llm.ToolResult{ID: "t1", Failed: true, Parts: []llm.Part{llm.Text{Text: "broke"}}}, llm.Text{Text: "again"}}},
		},
		Tools: []llm.Tool{
			{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)},
			{Server: llm.WebSearch, Native: &llm.Native{Dialect: "messages", Type: "web_search_20250305"}, At: "tools[1]"},
			{Native: &llm.Native{Dialect: "messages", Type: "bash_20250124"}, At: "tools[2]"},
		},
		ToolChoice: llm.ToolChoice{Mode: llm.ChoiceRequired},
		MaxTokens:  new(int64(1)), TopK: new(int64(5)), Stop: []string{"END"},
		Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(4000))},
		Extra:     []llm.Member{{Name: "container", Value: json.RawMessage(`"c"`)}},
	}
}

// What clients of other dialects say of a search of the web is expressed here.
func TestASearchOfTheWebIsAskedForInTheProvidersWords(t *testing.T) {
	of := func(d, kind, raw string) []llm.Tool {
		return []llm.Tool{{Server: llm.WebSearch, Native: &llm.Native{Dialect: d, Type: kind, Raw: json.RawMessage(raw)}, At: "tools[0]"}}
	}
	webSearch := []llm.Member{{Name: "web_search_options", Value: json.RawMessage(`{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"country":"CH","city":"Bern"}}}`)}}
	for _, tt := range []struct {
		name, provider, dialect string
		tools                   []llm.Tool
		extra                   []llm.Member
		want                    string // of the tools
		fate                    dialect.ParamChange
		lost                    string // options
	}{
		{"chat", "openai", "chat", nil, webSearch, `[{"type":"web_search","search_context_size":"low","user_location":{"type":"approximate","city":"Bern","country":"CH"}}]`, dialect.ParamChange{Name: "web_search_options", Outcome: dialect.Adapted, Note: "web_search"}, ""},
		{"chat at x.ai", "x-ai", "chat", nil, webSearch, `[{"type":"web_search"}]`, dialect.ParamChange{Name: "web_search_options", Outcome: dialect.Adapted, Note: "web_search"}, "web_search_options.search_context_size web_search_options.user_location"},
		{"chat elsewhere", "groq", "chat", nil, webSearch, ``, dialect.ParamChange{Name: "web_search_options", Outcome: dialect.Dropped}, ""},
		{"messages", "openai", "messages", of("messages", "web_search_20250305", `{"type":"web_search_20250305","name":"web_search","max_uses":1,"allowed_domains":["a.example"],"user_location":{"type":"approximate","country":"CH"}}`), nil,
			`[{"type":"web_search","filters":{"allowed_domains":["a.example"]},"user_location":{"type":"approximate","country":"CH"}}]`, dialect.ParamChange{Name: "tools[0].web_search_20250305", Outcome: dialect.Adapted, Note: "web_search"}, "tools[0].max_uses"},
		{"gemini", "openai", "gemini", of("gemini", "googleSearch", `{"googleSearch":{}}`), nil, `[{"type":"web_search"}]`, dialect.ParamChange{Name: "tools[0].googleSearch", Outcome: dialect.Adapted, Note: "web_search"}, ""},
		{"gemini with options", "openai", "gemini", of("gemini", "googleSearch", `{"googleSearch":{"excludeDomains":["b.example"]}}`), nil, `[{"type":"web_search"}]`,
			dialect.ParamChange{Name: "tools[0].googleSearch", Outcome: dialect.Adapted, Note: "web_search"}, "tools[0].googleSearch.excludeDomains"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &llm.Request{Dialect: tt.dialect, Tools: tt.tools, Extra: tt.extra, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "hi"}}}}}
			body, fates, err := responses.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf(tt.provider, "m"))
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Tools json.RawMessage }
			if err := json.Unmarshal(body, &got); err != nil || string(got.Tools) != tt.want {
				t.Errorf("tools %s, %v, want %s", got.Tools, err, tt.want)
			}
			want := []dialect.ParamChange{tt.fate}
			for name := range strings.FieldsSeq(tt.lost) {
				want = append(want, dialect.ParamChange{Name: name, Outcome: dialect.Dropped})
			}
			slices.SortFunc(fates, func(a, b dialect.ParamChange) int {
				return strings.Compare(string(a.Outcome)+a.Name, string(b.Outcome)+b.Name)
			})
			if !slices.Equal(fates, want) {
				t.Errorf("fates %v, want %v", fates, want)
			}
		})
	}
}

func TestRequestsOfOtherDialectsAreWrittenWithTheirFates(t *testing.T) {
	body, fates, err := responses.Dialect{}.EncodeRequest(nil, fromMessages(), dialecttest.TargetOf("openai", "gpt-5.1"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"gpt-5.1","instructions":"Be kind.","input":[
		{"type":"message","role":"user","content":[
			{"type":"input_text","text":"Look"},
			{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"},
			{"type":"input_text","text":"notes\n\nplain"}]},
		{"type":"reasoning","summary":[{"type":"summary_text","text":"kept"}],"encrypted_content":"O"},
		{"type":"message","role":"assistant","content":"I call."},
		{"type":"function_call","call_id":"t1","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"t1","output":"Error: broke"},
		{"type":"message","role":"user","content":"again"}],
		"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false},{"type":"web_search"}],
		"tool_choice":"required","reasoning":{"effort":"medium"},"max_output_tokens":16,
		"include":["reasoning.encrypted_content"],"store":false}`
	if diff := cmp.Diff(mustJSON(t, want), mustJSON(t, string(body))); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	wantFates := []dialect.ParamChange{
		{Name: "server_tool_use", Outcome: dialect.Dropped, Note: "server_tool_use"},
		{Name: "cache_control", Outcome: dialect.Dropped},
		{Name: "messages.thinking", Outcome: dialect.Ignored, Note: "the target does not read it"},
		{Name: "tools[1].web_search_20250305", Outcome: dialect.Adapted, Note: "web_search"},
		{Name: "tools[2].bash_20250124", Outcome: dialect.Dropped},
		{Name: "thinking", Outcome: dialect.Adapted, Note: "reasoning.effort medium"},
		{Name: "max_tokens", Outcome: dialect.Adapted, Note: "16 (minimum)"},
		{Name: "top_k", Outcome: dialect.Dropped},
		{Name: "stop_sequences", Outcome: dialect.Dropped},
		{Name: "container", Outcome: dialect.Dropped},
	}
	if diff := cmp.Diff(wantFates, fates); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

func mustJSON(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestThinkingIsAskedForAsTheModelTakesIt(t *testing.T) {
	for _, tt := range []struct {
		name, provider, model string
		reasoning             llm.Reasoning
		want, include         string
	}{
		{"off where it can be", "openai", "gpt-5.2", llm.Reasoning{Mode: llm.ThinkingDisabled}, `{"effort":"none"}`, "yes"},
		{"nearly off", "openai", "gpt-5-mini", llm.Reasoning{Mode: llm.ThinkingDisabled}, `{"effort":"minimal"}`, "yes"},
		{"low at least", "openai", "o3", llm.Reasoning{Mode: llm.ThinkingDisabled}, `{"effort":"low"}`, "yes"},
		{"not by models that don't think", "openai", "gpt-4o", llm.Reasoning{Mode: llm.ThinkingEnabled, Effort: "high", Summary: "auto"}, ``, ""},
		{"by effort", "openai", "gpt-5", llm.Reasoning{Effort: "high", Summary: "detailed"}, `{"effort":"high","summary":"detailed"}`, "yes"},
		{"told in the protocol's word", "openai", "gpt-5", llm.Reasoning{Summary: "summarized"}, `{"summary":"auto"}`, "yes"},
		{"not told", "openai", "gpt-5", llm.Reasoning{Summary: "omitted"}, ``, "yes"},
		{"behind a name that tells nothing", "azure-openai", "my-deployment", llm.Reasoning{Effort: "low"}, `{"effort":"low"}`, "yes"},
		{"unasked behind such a name", "azure-openai", "my-deployment", llm.Reasoning{}, ``, ""},
		{"at hosts that give nothing encrypted", "groq", "openai/gpt-oss-120b", llm.Reasoning{Effort: "low"}, `{"effort":"low"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &llm.Request{Dialect: "chat", Reasoning: tt.reasoning, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "x"}}}}}
			body, _, err := responses.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf(tt.provider, tt.model))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Reasoning json.RawMessage
				Include   []string
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if string(got.Reasoning) != tt.want || (len(got.Include) > 0) != (tt.include != "") {
				t.Errorf("reasoning %s and include %v, want %s and %q", got.Reasoning, got.Include, tt.want, tt.include)
			}
		})
	}
}

func TestContentWithoutAnInputFormIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		media llm.Media
	}{
		{"sound", llm.Media{Kind: llm.Audio, Type: "audio/wav", Data: "AAAA"}},
		{"film", llm.Media{Kind: llm.Video, URL: "https://example.com/a.mp4"}},
		{"a store's address", llm.Media{Kind: llm.Image, URL: "gs://bucket/a.png"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.media.At = "messages[0].content[1]"
			r := &llm.Request{Dialect: "chat", Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "x"}, tt.media}}}}
			_, _, err := responses.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf("openai", "gpt-5"))
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Param != tt.media.At || e.Code != dialect.CodeUnsupported {
				t.Errorf("EncodeRequest = %v, want %s refused", err, tt.media.At)
			}
		})
	}
}

func TestChatKeepsWhatBothDialectsHave(t *testing.T) {
	r := &llm.Request{Dialect: "chat", Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "x"}}}}, Extra: []llm.Member{
		{Name: "prompt_cache_key", Value: json.RawMessage(`"k"`)},
		{Name: "store", Value: json.RawMessage(`true`)},
		{Name: "prediction", Value: json.RawMessage(`{}`)},
	}}
	body, fates, err := responses.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf("openai", "gpt-4o"))
	if want := `{"model":"gpt-4o","input":"x","prompt_cache_key":"k","store":true}`; err != nil || string(body) != want {
		t.Errorf("EncodeRequest = %s, %v; want %s", body, err, want)
	}
	if diff := cmp.Diff([]dialect.ParamChange{{Name: "prediction", Outcome: dialect.Dropped}}, fates); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}
