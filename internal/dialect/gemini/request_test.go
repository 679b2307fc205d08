package gemini_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var (
	flash2    = dialecttest.TargetOf("google", "gemini-2.5-flash")
	pro2      = dialecttest.TargetOf("google", "gemini-2.5-pro")
	flash3    = dialecttest.TargetOf("google", "gemini-3-flash-preview")
	vertex3   = dialecttest.TargetOf("vertex-ai", "google/gemini-3-flash-preview")
	oldest    = dialecttest.TargetOf("google", "gemini-1.5-flash")
	gemma     = dialecttest.TargetOf("google", "gemma-3-27b-it")
	userSaid  = llm.Message{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "hi"}}}
	userWrote = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
)

func adapted(name, note string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Adapted, Note: note}
}

func dropped(name string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Dropped}
}

// wrote encodes a request of a client of the chat dialect.
func wrote(r llm.Request, to dialect.RequestTarget) (string, []dialect.ParamChange, error) {
	r.Dialect = "chat"
	if r.Messages == nil {
		r.Messages = []llm.Message{userSaid}
	}
	body, fates, err := gemini.Dialect{}.EncodeRequest(nil, &r, to)
	return string(body), fates, err
}

func mustWrite(t *testing.T, r llm.Request, to dialect.RequestTarget, want string, fates ...dialect.ParamChange) {
	t.Helper()
	body, got, err := wrote(r, to)
	if err != nil || body != want {
		t.Errorf("EncodeRequest =\n%s, %v, want\n%s", body, err, want)
	}
	if diff := cmp.Diff(fates, got); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

func TestWebSearchOptionsBecomeATool(t *testing.T) {
	webSearch := []llm.Member{{Name: "web_search_options", Value: json.RawMessage(`{"search_context_size":"low"}`)}}
	place := []llm.Member{{Name: "web_search_options", Value: json.RawMessage(`{"user_location":{"type":"approximate","approximate":{"country":"CH"}}}`)}}
	f := llm.Tool{Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{}}`), At: "tools[0]"}
	const search, function = `{"googleSearch":{}}`, `{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","properties":{}}}]}`
	mustWrite(t, llm.Request{Extra: webSearch}, flash2, `{`+userWrote+`,"tools":[`+search+`]}`, adapted("web_search_options", "googleSearch"), dropped("web_search_options.search_context_size"))
	mustWrite(t, llm.Request{Extra: place}, flash2, `{`+userWrote+`,"tools":[`+search+`]}`, adapted("web_search_options", "googleSearch, without user_location"))
	mustWrite(t, llm.Request{Extra: webSearch, Tools: []llm.Tool{f}}, flash2, `{`+userWrote+`,"tools":[`+function+`]}`, dropped("web_search_options"))
	mustWrite(t, llm.Request{Extra: webSearch, Tools: []llm.Tool{f}}, flash3, `{`+userWrote+`,"tools":[`+search+`,`+function+`],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"},"includeServerSideToolInvocations":true}}`, adapted("web_search_options", "googleSearch"), dropped("web_search_options.search_context_size"))
	mustWrite(t, llm.Request{Tools: []llm.Tool{{Server: llm.WebSearch, Native: &llm.Native{Dialect: "messages", Type: "web_search_20250305", Raw: json.RawMessage(`{"type":"web_search_20250305","name":"web_search","max_uses":1}`)}, At: "tools[0]"}}}, flash2, `{`+userWrote+`,"tools":[`+search+`]}`,
		adapted("tools[0]", "googleSearch"), dropped("tools[0].max_uses"))
	mustWrite(t, llm.Request{Extra: webSearch, Tools: []llm.Tool{{Name: "google_search", At: "tools[0]"}}}, flash2, `{`+userWrote+`,"tools":[`+search+`]}`,
		adapted("tools[0]", "googleSearch"), adapted("web_search_options", "the search among the tools"))
	mustWrite(t, llm.Request{Extra: webSearch, Tools: []llm.Tool{{Server: llm.WebSearch, Native: &llm.Native{Dialect: "chat", Type: "web_search"}, At: "tools[0]"}}}, flash2, `{`+userWrote+`,"tools":[`+search+`]}`,
		adapted("tools[0]", "googleSearch"), adapted("web_search_options", "the search among the tools"))
}

func TestParametersOfOtherDialects(t *testing.T) {
	tool := llm.Tool{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}
	schema := llm.Format{Kind: llm.FormatSchema, Name: "a", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	said := userWrote
	declared := `"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}}]}]`
	for _, tt := range []struct {
		name  string
		r     llm.Request
		to    dialect.RequestTarget
		want  string
		fates []dialect.ParamChange
	}{
		{"sampling", llm.Request{
			Temperature: new(0.5), TopP: new(1.), TopK: new(int64(3)), N: new(int64(2)), MaxTokens: new(int64(9)), Stop: []string{"a"}, Seed: new(int64(7)),
			PresencePenalty: new(-1.), FrequencyPenalty: new(.25), Logprobs: new(true), TopLogprobs: new(int64(5)),
		}, flash2, said + `,"generationConfig":{"temperature":0.5,"topP":1,"topK":3,"candidateCount":2,"maxOutputTokens":9,"stopSequences":["a"],"seed":7,"presencePenalty":-1,"frequencyPenalty":0.25,"responseLogprobs":true,"logprobs":5}`, nil},
		{"what there is no place for", llm.Request{
			LogitBias: json.RawMessage(`{}`), User: "u", Verbosity: "low", Cache: &llm.Cache{}, ParallelTools: new(false), ServiceTier: "scale",
			Metadata: json.RawMessage(`{"a":"b"}`), Extra: []llm.Member{{Name: "store", Value: json.RawMessage("true")}},
		}, flash2, said, []dialect.ParamChange{dropped("service_tier"), dropped("metadata"), dropped("store"), dropped("logit_bias"), dropped("user"), dropped("verbosity"), dropped("cache_control"), dropped("parallel_tool_calls")}},
		{"effort of 2.5", llm.Request{Reasoning: llm.Reasoning{Effort: "high"}}, flash2,
			said + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}`, []dialect.ParamChange{adapted("reasoning_effort", "thinkingBudget 24576")}},
		{"no effort of 2.5", llm.Request{Reasoning: llm.Reasoning{Effort: "none"}}, flash2, said + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`, nil},
		{"no thinking of 2.5 pro", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingDisabled}}, pro2,
			said + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":128}}`, []dialect.ParamChange{adapted("thinking", "thinkingBudget 128")}},
		{"effort of 3", llm.Request{Reasoning: llm.Reasoning{Effort: "medium"}}, flash3, said + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"medium"}}`, nil},
		{"no effort of 3", llm.Request{Reasoning: llm.Reasoning{Effort: "none"}}, flash3,
			said + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"minimal"}}`, []dialect.ParamChange{adapted("reasoning_effort", "thinkingLevel minimal")}},
		{"a budget beyond the model's", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(99999))}}, flash2,
			said + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24576}}`, []dialect.ParamChange{adapted("thinking", "thinkingBudget 24576")}},
		{"a budget wins over an effort", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(2000)), Effort: "high"}}, flash2,
			said + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2000}}`, []dialect.ParamChange{dropped("reasoning_effort")}},
		{"adaptive", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingAdaptive, Summary: "omitted"}}, flash2, said + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}`, nil},
		{"thinking of a model that does not", llm.Request{Reasoning: llm.Reasoning{Effort: "low"}}, oldest, said, []dialect.ParamChange{dropped("reasoning_effort")}},
		{"JSON", llm.Request{Format: llm.Format{Kind: llm.FormatJSON}}, flash2, said + `,"generationConfig":{"responseMimeType":"application/json"}`, nil},
		{"a schema", llm.Request{Format: schema}, flash2, said + `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{}}}`, nil},
		{"a schema next to tools", llm.Request{Format: schema, Tools: []llm.Tool{tool}}, flash3,
			said + `,` + declared + `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{}}}`, nil},
		{"a schema next to tools, forced", llm.Request{Format: schema, Tools: []llm.Tool{tool}}, flash2,
			said + `,"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}},{"name":"json_response","description":"Answer with this, and nothing else.","parametersJsonSchema":{"type":"object","properties":{}}}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`,
			[]dialect.ParamChange{adapted("response_format", "forced tool")}},
		{"JSON next to tools", llm.Request{Format: llm.Format{Kind: llm.FormatJSON}, Tools: []llm.Tool{tool}}, flash2, said + `,` + declared, []dialect.ParamChange{dropped("response_format")}},
		{"one of some tools", llm.Request{Tools: []llm.Tool{tool}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"f"}}}, flash2,
			said + `,` + declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`, nil},
		{"strict tools", llm.Request{Tools: []llm.Tool{{Name: "f", Schema: tool.Schema, Strict: new(true)}}}, flash2, said + `,` + declared + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}`, nil},
		{"a choice without tools", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceRequired}}, flash2, said, []dialect.ParamChange{dropped("tool_choice")}},
		{"tools of the provider", llm.Request{Tools: []llm.Tool{{Name: "google_search", At: "tools[0]"}, {Server: llm.CodeExecution, Native: &llm.Native{Dialect: "messages", Type: "code_execution_20250522"}, At: "tools[1]"}, tool}}, flash3,
			said + `,"tools":[{"googleSearch":{}},{"codeExecution":{}},{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"},"includeServerSideToolInvocations":true}`,
			[]dialect.ParamChange{adapted("tools[0]", "googleSearch"), adapted("tools[1]", "codeExecution")}},
		{"tools of the provider on vertex", llm.Request{Tools: []llm.Tool{{Server: llm.WebSearch, At: "tools[0]"}, tool}}, vertex3,
			said + `,"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}`, []dialect.ParamChange{adapted("tools[0]", "googleSearch")}},
		{"a place for maps, with a choice", llm.Request{Tools: []llm.Tool{{Name: "googleMaps", Schema: json.RawMessage(`{"enable_widget":true,"retrieval_config":{"lat_lng":{"latitude":1}}}`), At: "tools[0]"}}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceAuto}}, vertex3,
			said + `,"tools":[{"googleMaps":{"enableWidget":true}}],"toolConfig":{"retrievalConfig":{"latLng":{"latitude":1}}}`, []dialect.ParamChange{adapted("tools[0]", "googleMaps")}},
		{"a function that has the name of a tool of the provider", llm.Request{Tools: []llm.Tool{{Name: "google_search", Schema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)}}}, flash3,
			said + `,"tools":[{"functionDeclarations":[{"name":"google_search","parametersJsonSchema":{"type":"object","properties":{"q":{"type":"string"}}}}]}]`, nil},
		{"another vendor's tool", llm.Request{Tools: []llm.Tool{{Native: &llm.Native{Dialect: "messages", Type: "bash_20250124"}, At: "tools[0]"}}}, flash3, said, []dialect.ParamChange{dropped("tools[0]")}},
		{"a custom tool", llm.Request{Tools: []llm.Tool{{Name: "patch", Custom: true, At: "tools[0]"}}}, flash3,
			said + `,"tools":[{"functionDeclarations":[{"name":"patch","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]}]`, []dialect.ParamChange{adapted("tools[0]", "function")}},
		{"a voice", llm.Request{Speech: json.RawMessage(`{"voice":"Kore","format":"wav"}`), Modalities: []string{"text", "audio"}}, flash2,
			said + `,"generationConfig":{"responseModalities":["AUDIO"],"speechConfig":{"voiceConfig":{"prebuiltVoiceConfig":{"voiceName":"Kore"}}}}`, []dialect.ParamChange{adapted("modalities", "AUDIO"), adapted("audio", "pcm16")}},
		{"the superset", llm.Request{Extra: []llm.Member{
			{Name: "safety_settings", Value: json.RawMessage(`[{"category":"a_b"}]`)}, {Name: "cached_content", Value: json.RawMessage(`"c"`)}, {Name: "image_config", Value: json.RawMessage(`{"aspect_ratio":"1:1","person_generation":"x"}`)},
			{Name: "media_resolution", Value: json.RawMessage(`"MEDIA_RESOLUTION_LOW"`)}, {Name: "labels", Value: json.RawMessage(`{"a":"b"}`)},
		}}, flash2, said + `,"generationConfig":{"imageConfig":{"aspectRatio":"1:1"},"mediaResolution":"MEDIA_RESOLUTION_LOW"},"safetySettings":[{"category":"a_b"}],"cachedContent":"c"`,
			[]dialect.ParamChange{dropped("image_config.person_generation"), dropped("labels")}},
		{"labels", llm.Request{Metadata: json.RawMessage(`{"Team Name":"Blue!","n":""}`)}, vertex3, said + `,"labels":{"client_team_name":"blue_"}`, []dialect.ParamChange{adapted("metadata", "labels")}},
		{"streamed arguments", llm.Request{Tools: []llm.Tool{tool}, Extra: []llm.Member{{Name: "stream_function_call_arguments", Value: json.RawMessage("true")}}}, vertex3,
			said + `,` + declared + `,"toolConfig":{"functionCallingConfig":{"streamFunctionCallArguments":true}}`, nil},
		{"streamed arguments elsewhere", llm.Request{Tools: []llm.Tool{tool}, Extra: []llm.Member{{Name: "stream_function_call_arguments", Value: json.RawMessage("true")}}}, flash3,
			said + `,` + declared, []dialect.ParamChange{dropped("stream_function_call_arguments")}},
		{"flex", llm.Request{ServiceTier: "flex"}, flash3, said + `,"serviceTier":"flex"`, nil},
		{"the usual tier", llm.Request{ServiceTier: "default"}, flash3, said + `,"serviceTier":"standard"`, nil},
		{"a tier of vertex", llm.Request{ServiceTier: "flex"}, vertex3, said, []dialect.ParamChange{dropped("service_tier")}},
		{"many likely tokens", llm.Request{TopLogprobs: new(int64(25))}, flash3, said + `,"generationConfig":{"logprobs":20}`, []dialect.ParamChange{adapted("top_logprobs", "20")}},
	} {
		t.Run(tt.name, func(t *testing.T) { mustWrite(t, tt.r, tt.to, "{"+tt.want+"}", tt.fates...) })
	}
}

func TestMessagesOfOtherDialects(t *testing.T) {
	call := func(id string) llm.ToolCall { return llm.ToolCall{ID: id, Name: "f", Arguments: `{"a":1}`} }
	result := func(id, text string) llm.Message {
		return llm.Message{Role: llm.User, At: "messages[9]", Parts: []llm.Part{llm.ToolResult{ID: id, Parts: []llm.Part{llm.Text{Text: text}}, At: "messages[9]"}}}
	}
	signed := call("a")
	signed.Signature = llm.Signature{Vendor: llm.Google, Value: "c2ln"}
	foreign := call("a")
	foreign.Signature = llm.Signature{Vendor: llm.Anthropic, Value: "c2ln"}
	assistant := func(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.Assistant, Parts: parts} }
	const aCall = `{"functionCall":{"id":"a","name":"f","args":{"a":1}}}`
	for _, tt := range []struct {
		name     string
		messages []llm.Message
		to       dialect.RequestTarget
		want     string
		fates    []dialect.ParamChange
	}{
		{"all of several system messages", []llm.Message{{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "a"}, llm.Text{Text: "b"}}}, userSaid, {Role: llm.Developer, At: "messages[2]", Parts: []llm.Part{llm.Text{Text: "c"}}}},
			flash2, `"systemInstruction":{"parts":[{"text":"a"},{"text":"b"},{"text":"c"}]},` + userWrote, []dialect.ParamChange{adapted("messages[2]", "systemInstruction")}},
		{"a model without system messages", []llm.Message{{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "a"}}}, userSaid}, gemma,
			`"contents":[{"role":"user","parts":[{"text":"a"},{"text":"hi"}]}]`, []dialect.ParamChange{adapted("system", "user text")}},
		{"turns of one role are one", []llm.Message{userSaid, userSaid, assistant(llm.Text{Text: "a"}), assistant(), userSaid}, flash2,
			`"contents":[{"role":"user","parts":[{"text":"hi"},{"text":"hi"}]},{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"hi"}]}]`, nil},
		{"words before calls, and results in the order of calls", []llm.Message{userSaid, assistant(llm.Text{Text: "so"}, call("a"), call("b")), result("b", "2"), result("a", `{"x":1}`), userSaid}, flash2,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"text":"so"},` + aCall + `,` + strings.Replace(aCall, `"a"`, `"b"`, 1) + `]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"x":1}}},{"functionResponse":{"id":"b","name":"f","response":{"output":"2"}}},{"text":"hi"}]}]`, nil},
		{"no ids for vertex, and a stand-in for signatures", []llm.Message{userSaid, assistant(call("a"), call("b")), result("a", ""), result("b", "2")}, vertex3,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"skip_thought_signature_validator"}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"(no output)"}}},{"functionResponse":{"name":"f","response":{"output":"2"}}}]}]`, nil},
		{"the first of parallel calls is signed", []llm.Message{userSaid, assistant(signed, call("b"))}, vertex3,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"f","args":{"a":1}}}]}]`, nil},
		{"a stand-in for each call when the first is not signed", []llm.Message{userSaid, assistant(call("b"), signed, call("c"))}, vertex3,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"skip_thought_signature_validator"}]}]`, nil},
		{"nothing but a system message", []llm.Message{{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "hi"}}}}, flash2, userWrote, []dialect.ParamChange{adapted("system", "user text")}},
		{"no signature of another vendor", []llm.Message{userSaid, assistant(llm.Thinking{Text: "t", Signature: foreign.Signature}, foreign)}, flash2, userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[` + aCall + `]}]`, []dialect.ParamChange{{Name: "messages.thinking", Outcome: dialect.Ignored, Note: "the target does not read it"}}},
		{"an empty thought lends its signature", []llm.Message{userSaid, assistant(llm.Thinking{Signature: signed.Signature}, call("a"))}, flash2,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[` + aCall[:len(aCall)-1] + `,"thoughtSignature":"c2ln"}]}]`, nil},
		{"a signature that nothing follows", []llm.Message{userSaid, assistant(llm.Text{Text: "a"}, llm.Thinking{Signature: signed.Signature})}, flash2,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"text":"a"},{"text":"","thoughtSignature":"c2ln"}]}]`, nil},
		{"unsigned thoughts stay behind", []llm.Message{userSaid, assistant(llm.Thinking{Text: "t"}, llm.Text{Text: "a"})}, flash2, userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"text":"a"}]}]`, []dialect.ParamChange{{Name: "messages.thinking", Outcome: dialect.Ignored, Note: "the target does not read it"}}},
		{"arguments that are not an object", []llm.Message{userSaid, assistant(llm.ToolCall{ID: "a", Name: "f", Arguments: "x"}, llm.ToolCall{ID: "b", Name: "f"})}, flash2,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{"INVALID_JSON":"x"}}},{"functionCall":{"id":"b","name":"f","args":{}}}]}]`, []dialect.ParamChange{{Name: "arguments", Outcome: dialect.Adapted, Note: "malformed arguments as text in an object"}}},
		{"media", []llm.Message{{Role: llm.User, Parts: []llm.Part{
			llm.Media{Kind: llm.Image, URL: "https://a.example/b.PNG?c=d"}, llm.Media{Kind: llm.Video, URL: "https://youtu.be/x"}, llm.Media{Kind: llm.Document, FileID: "files/x"},
			llm.Media{Kind: llm.Audio, Type: "audio/wav", Data: "AAAA"}, llm.Media{Kind: llm.Document, Text: "t", Name: "n"}, llm.Media{Kind: llm.Image, URL: "gs://b/c"},
		}}}, flash2, `"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://a.example/b.PNG?c=d"}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://youtu.be/x"}},` +
			`{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}},{"inlineData":{"mimeType":"audio/wav","data":"AAAA"}},{"text":"n\n\nt"},{"fileData":{"mimeType":"image/jpeg","fileUri":"gs://b/c"}}]}]`, nil},
		{"an image in a result, inside", []llm.Message{userSaid, assistant(signed), {Role: llm.User, Parts: []llm.Part{llm.ToolResult{ID: "a", Failed: true, Parts: []llm.Part{llm.Text{Text: "x"}, llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"}}}}}}, vertex3,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"error":"x"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]}]`, nil},
		{"an image in a result, next to it", []llm.Message{userSaid, assistant(call("a")), {Role: llm.User, Parts: []llm.Part{llm.ToolResult{ID: "a", Parts: []llm.Part{llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"}}}}}}, flash2,
			userWrote[:len(userWrote)-1] + `,{"role":"model","parts":[` + aCall + `]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"output":"(see the attached files)"}}},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mustWrite(t, llm.Request{Messages: tt.messages}, tt.to, "{"+tt.want+"}", tt.fates...)
		})
	}
}

func TestEncodeRequestRefuses(t *testing.T) {
	user := func(p llm.Part) []llm.Message { return []llm.Message{{Role: llm.User, Parts: []llm.Part{p}}} }
	for _, tt := range []struct {
		name, param string
		r           llm.Request
		to          dialect.RequestTarget
	}{
		{"a result without a call", "messages[0]", llm.Request{Messages: user(llm.ToolResult{ID: "x", At: "messages[0]"})}, flash2},
		{"a file of S3", "m", llm.Request{Messages: user(llm.Media{Kind: llm.Image, URL: "s3://a/b", At: "m"})}, flash2},
		{"another provider's file", "m", llm.Request{Messages: user(llm.Media{Kind: llm.Image, FileID: "file-1", At: "m"})}, flash2},
		{"a file of the other host", "m", llm.Request{Messages: user(llm.Media{Kind: llm.Image, FileID: "files/1", At: "m"})}, vertex3},
		{"an image in a system message", "m", llm.Request{Messages: []llm.Message{{Role: llm.System, Parts: []llm.Part{llm.Media{Kind: llm.Image, Data: "AAAA", At: "m"}}}, userSaid}}, flash2},
		{"a schema that is none", "tools[0]", llm.Request{Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(`[]`), At: "tools[0]"}}}, flash2},
		{"a list next to tools", "response_format", llm.Request{Tools: []llm.Tool{{Name: "f"}}, Format: llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{"type":"array"}`)}}, flash2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := wrote(tt.r, tt.to)
			if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || e.Param != tt.param {
				t.Errorf("EncodeRequest: %v, want a refusal of %s", err, tt.param)
			}
		})
	}
}

func TestDecodeRequestNamesWhatIsWrong(t *testing.T) {
	const turn = `{"contents":[{"role":"user","parts":[%s]}]}`
	for body, param := range map[string]string{
		`[]`:                                "body",
		`{"contents":[1]}`:                  "contents[0]",
		`{"contents":[{"role":"system"}]}`:  "contents[0].role",
		fmt.Sprintf(turn, `{"text":1}`):     "contents[0].parts[0].text",
		fmt.Sprintf(turn, `{"text":"a"},2`): "contents[0].parts[1]",
		fmt.Sprintf(turn, `{"inlineData":{"mimeType":"image/png","data":"%%%"}}`):            "contents[0].parts[0].inlineData.data",
		fmt.Sprintf(turn, `{"inline_data":{"data":"AAAA"}}`):                                 "contents[0].parts[0].inlineData.mimeType",
		fmt.Sprintf(turn, `{"fileData":{}}`):                                                 "contents[0].parts[0].fileData.fileUri",
		fmt.Sprintf(turn, `{"functionResponse":{"name":"f","response":{}}}`):                 "contents[0].parts[0].functionResponse",
		fmt.Sprintf(turn, `{"functionCall":{"args":{}}}`):                                    "contents[0].parts[0].functionCall.name",
		`{"generationConfig":{"top_k":"x"}}`:                                                 "generationConfig.topK",
		`{"generationConfig":{"seed":1.5}}`:                                                  "generationConfig.seed",
		`{"generationConfig":{"responseSchema":1}}`:                                          "generationConfig.responseSchema",
		`{"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}}`:                           "toolConfig.functionCallingConfig.mode",
		`{"tools":[{"functionDeclarations":[{}]}]}`:                                          "tools[0].functionDeclarations[0].name",
		`{"tools":[{"functionDeclarations":[{"name":"f","parameters":[]}]}]}`:                "tools[0].functionDeclarations[0].parameters",
		`{"tools":[{"functionDeclarations":[{"name":"` + strings.Repeat("a", 129) + `"}]}]}`: "tools[0].functionDeclarations[0].name",
	} {
		_, err := gemini.Dialect{}.DecodeRequest([]byte(body))
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || e.Param != param {
			t.Errorf("DecodeRequest(%s) = %v, want a refusal of %s", body, err, param)
		}
	}
}

func TestBothSpellingsAreRead(t *testing.T) {
	snake, err := gemini.Dialect{}.DecodeRequest([]byte(`{"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}},{"text":"x"}]},
		"generation_config":{"max_output_tokens":"9","top_p":0.5,"thinking_config":{"thinking_budget":0,"include_thoughts":false},"response_mime_type":"application/json"},"safety_settings":[],
		"tools":{"function_declarations":[{"name":"f_g","parameters":{"type":"OBJECT","properties":{"a_b":{"type":"STRING","nullable":true}}}}]},"tool_config":{"function_calling_config":{"mode":"ANY","allowed_function_names":["f_g"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, fates, err := gemini.Dialect{}.EncodeRequest(nil, snake, flash2)
	want := `{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"text":"x"}]}],` +
		`"tools":[{"functionDeclarations":[{"name":"f_g","parameters":{"type":"OBJECT","properties":{"a_b":{"type":"STRING","nullable":true}}}}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f_g"]}},` +
		`"generationConfig":{"topP":0.5,"maxOutputTokens":9,"responseMimeType":"application/json","thinkingConfig":{"includeThoughts":false,"thinkingBudget":0}},"safetySettings":[]}`
	if err != nil || fates != nil || string(got) != want {
		t.Errorf("EncodeRequest =\n%s, %v, %v, want\n%s", got, fates, err, want)
	}
	schema := `{"type":"object","properties":{"a_b":{"type":["string","null"]}}}`
	if string(snake.Tools[0].Schema) != schema {
		t.Errorf("the schema is %s, want %s", snake.Tools[0].Schema, schema)
	}
}

func TestResultsWithoutIdsFindTheirCalls(t *testing.T) {
	r, err := gemini.Dialect{}.DecodeRequest([]byte(`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f"}}]},
		{"parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}},{"functionResponse":{"name":"f","response":{"output":"2"}}},{"functionResponse":{"name":"g","response":{"output":"3"}}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Messages[1].Parts {
		result := p.(llm.ToolResult)
		got = append(got, result.ID+" "+result.Name+" "+result.Parts[0].(llm.Text).Text)
	}
	if diff := cmp.Diff([]string{"call_0 f 1", "call_2 f 2", "call_1 g 3"}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestOlderModelsGetAPartOfOpenAPI(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"keywords go, properties of their name stay", `{"type":"object","$schema":"x","additionalProperties":false,"properties":{"additionalProperties":{"type":"string","default":"a"},"$ref":{"type":"integer","format":"int32","exclusiveMinimum":1}},"required":["additionalProperties","gone"]}`,
			`{"type":"object","properties":{"additionalProperties":{"type":"string"},"$ref":{"format":"int32","type":"integer"}},"required":["additionalProperties"]}`},
		{"references", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"b":{"$ref":"#/nowhere"}},"$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#/$defs/A"}}}}}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"next":{"type":"object"}}},"b":{"type":"object"}}}`},
		{"null among types", `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"integer"},{"type":"null"}],"description":"d"},"c":{"type":["string","integer"]},"d":{"oneOf":[{"type":"string"},{"type":"integer"}],"default":1}}}`,
			`{"type":"object","properties":{"a":{"nullable":true,"type":"string"},"b":{"description":"d","nullable":true,"type":"integer"},"c":{"anyOf":[{"type":"string"},{"type":"integer"}]},"d":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`},
		{"all of several", `{"description":"d","allOf":[{"description":"e","properties":{"a":{"const":"x"}},"required":["a"]},{"properties":{"a":{"type":"integer"},"b":{"enum":[1,2]}}}]}`,
			`{"description":"d","type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"number"}},"required":["a"]}`},
		{"lists", `{"type":"array","minItems":1,"items":{"type":"string","format":"email","pattern":"@"}}`, `{"minItems":1,"type":"array","items":{"pattern":"@","type":"string"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mustWrite(t, llm.Request{Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(tt.schema)}}}, oldest,
				`{`+userWrote+`,"tools":[{"functionDeclarations":[{"name":"f","parameters":`+tt.want+`}]}]}`)
		})
	}
}

func TestContentsComeBackAsTheyWere(t *testing.T) {
	for _, parts := range []string{
		`{"text":"a","thought":true,"thoughtSignature":"cw=="},{"text":"b","thought":true,"thoughtSignature":"dA=="},{"text":"c"}`,
		`{"functionCall":{"name":"f","args":{}}},{"functionResponse":{"name":"f","response":{"output":"{\"a\":1}"}}}`,
		`{"functionCall":{"name":"f","args":{}}},{"functionResponse":{"name":"f","response":{"error":"{\"a\":1}"}}}`,
		`{"functionCall":{"name":"f","args":{}}},{"functionResponse":{"name":"f","response":{"error":{"a":1}}}}`,
		`{"functionCall":{"id":"x","name":"f","args":{}},"thoughtSignature":"cw=="},{"functionResponse":{"id":"x","name":"f","response":{"output":"","error":""},"willContinue":true,"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}`,
		`{"fileData":{"mimeType":"video/mp4","fileUri":"gs://a/b"},"videoMetadata":{"fps":2},"mediaResolution":{"level":"MEDIA_RESOLUTION_ULTRA_HIGH"}}`,
		`{"fileData":{"mimeType":"image/png","fileUri":"gs://a/b"},"mediaResolution":{"level":"MEDIA_RESOLUTION_LOW"}}`,
		`{"inlineData":{"mimeType":"image/png","data":"AAAA"},"thought":true}`,
		`{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"cw=="},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`,
	} {
		body := `{"contents":[{"role":"model","parts":[` + parts + `]}]}`
		r, err := gemini.Dialect{}.DecodeRequest([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", parts, err)
			continue
		}
		got, fates, err := gemini.Dialect{}.EncodeRequest(nil, r, flash3)
		if err != nil || fates != nil {
			t.Errorf("%s: %v, fates %v", parts, err, fates)
		}
		if diff := cmp.Diff(mustJSON(t, body), mustJSON(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", parts, diff)
		}
	}
}

func TestParametersOfThisDialectComeBackAsTheyWere(t *testing.T) {
	for _, body := range []string{
		`{"contents":[],"cachedContent":"c","modelArmorConfig":{"a_b":1},"labels":{"A b":"C"},"serviceTier":"standard","safetySettings":[{"category":"X"}],"somethingNew":{"a":1}}`,
		`{"contents":[],"generationConfig":{"responseMimeType":"text/x.enum","responseJsonSchema":{"type":"string","enum":["a"]},"imageConfig":{"aspectRatio":"1:1"},"mediaResolution":"M","routingConfig":{}}}`,
		`{"contents":[],"generationConfig":{"responseMimeType":"text/plain","responseModalities":["TEXT","IMAGE"],"speechConfig":{"voiceConfig":{"prebuiltVoiceConfig":{"voiceName":"Kore"}}}}}`,
		`{"contents":[],"generationConfig":{"speechConfig":{"languageCode":"de","voiceConfig":{"prebuiltVoiceConfig":{"voiceName":"Kore"}}},"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH","future":1}}}`,
		`{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}}`,
		`{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`,
		`{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":7,"includeThoughts":false}}}`,
		`{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["f"],"streamFunctionCallArguments":true},"retrievalConfig":{"latLng":{}},"includeServerSideToolInvocations":true}}`,
		`{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}}`,
		`{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}`,
		`{"contents":[],"toolConfig":{"functionCallingConfig":{"streamFunctionCallArguments":true}}}`,
		`{"contents":[],"tools":[{"googleSearch":{}},{"googleMaps":{"enableWidget":true}},{"fileSearch":{"topK":1}},{"functionDeclarations":[{"name":"f","description":"d","response":{"type":"OBJECT"},"behavior":"BLOCKING","parameters":{"type":"OBJECT","maxProperties":"3"}}]}]}`,
		`{"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},"contents":[{"role":"user","parts":[{"text":"a"}],"future":1},{"role":"user","parts":[{"text":""}]}]}`,
	} {
		r, err := gemini.Dialect{}.DecodeRequest([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		got, fates, err := gemini.Dialect{}.EncodeRequest(nil, r, flash2)
		if err != nil || fates != nil {
			t.Errorf("%s: %v, fates %v", body, err, fates)
		}
		if diff := cmp.Diff(mustJSON(t, body), mustJSON(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
