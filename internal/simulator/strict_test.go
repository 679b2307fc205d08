package simulator_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/recorder"
)

// A strictCase is a body that a real provider refuses, or takes.
type strictCase struct {
	name, body string
	want       string // part of the message; empty where the body is fine
}

const (
	max   = `"model":"m","max_tokens":2048,`
	use   = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	hello = `{"role":"user","content":"x"}`

	marked = `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
)

var messagesCases = []strictCase{
	{"a body", `{` + max + `"messages":[` + hello + `]}`, ""},
	{"no max_tokens", `{"model":"m","messages":[` + hello + `]}`, "max_tokens: Field required"},
	{"a user of 257 characters", `{` + max + `"messages":[` + hello + `],"metadata":{"user_id":"` + strings.Repeat("u", 257) + `"}}`, "maximum length 256"},
	{"an unknown member", `{` + max + `"messages":[` + hello + `],"n":1}`, "n: Extra inputs are not permitted"},
	{"a conversation to be kept", `{` + max + `"messages":[` + hello + `],"thread":{"type":"create"}}`, "conversations are not kept"},
	{"an unknown member of a block", `{` + max + `"messages":[{"role":"user","content":[{"type":"text","text":"x","detail":"low"}]}]}`, "detail: Extra inputs"},
	{"no messages", `{` + max + `"messages":[]}`, "messages"},
	{"an assistant first", `{` + max + `"messages":[{"role":"assistant","content":"x"}]}`, "first message"},
	{"an empty string", `{` + max + `"messages":[{"role":"user","content":[{"type":"text","text":" "}]}]}`, "non-whitespace"},
	{"two users in a row", `{` + max + `"messages":[` + hello + `,` + hello + `]}`, ""},
	{"a result without a call", `{` + max + `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`, "unexpected `tool_use_id`"},
	{"a call without a result", `{` + max + `"messages":[` + hello + `,` + use + `,` + hello + `]}`, "without `tool_result`"},
	{"a call and its result", `{` + max + `"messages":[` + hello + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"},{"type":"text","text":"and"}]}]}`, ""},
	{"a result behind a text", `{` + max + `"messages":[` + hello + `,` + use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"}]}]}`, "tool_result"},
	{"a foreign signature", `{` + max + `"messages":[` + hello + `,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"},{"type":"text","text":"y"}]},` + hello + `]}`, "Invalid `signature`"},
	{"a choice without tools", `{` + max + `"messages":[` + hello + `],"tool_choice":{"type":"auto"}}`, "tool_choice may only"},
	{"a string for stop sequences", `{` + max + `"messages":[` + hello + `],"stop_sequences":"x"}`, "valid list"},
	{"a schema that is not an object", `{` + max + `"messages":[` + hello + `],"tools":[{"name":"f","input_schema":{}}]}`, "'object'"},
	{"an open schema", `{` + max + `"messages":[` + hello + `],"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`, "additionalProperties"},
	{"thinking with a temperature", `{` + max + `"messages":[` + hello + `],"thinking":{"type":"enabled","budget_tokens":1024},"temperature":0.5}`, "temperature"},
	{"a budget over the limit", `{` + max + `"messages":[` + hello + `],"thinking":{"type":"enabled","budget_tokens":2048}}`, "greater than"},
	{"broken base64", `{` + max + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"data:x"}}]}]}`, "base64"},
	{"a temperature over one", `{` + max + `"messages":[` + hello + `],"temperature":1.5}`, "temperature"},
	{"five cache marks", `{` + max + `"system":[` + marked + `,` + marked + `],"messages":[{"role":"user","content":[` + marked + `,` + marked + `,` + marked + `]}]}`, "maximum of 4 blocks with cache_control may be provided. Found 5."},
	{"four cache marks", `{` + max + `"system":[` + marked + `,` + marked + `],"messages":[{"role":"user","content":[` + marked + `,` + marked + `]}]}`, ""},
	{"an empty list of blocks", `{` + max + `"messages":[{"role":"user","content":[]}]}`, "non-empty content"},
	{"an empty assistant", `{` + max + `"messages":[` + hello + `,{"role":"assistant","content":""},` + hello + `]}`, "non-empty content"},
	{"an empty prefill", `{` + max + `"messages":[` + hello + `,{"role":"assistant","content":[]}]}`, ""},
	{"a choice of schemas for a tool", `{` + max + `"messages":[` + hello + `],"tools":[{"name":"f","input_schema":{"type":"object","anyOf":[{"required":["a"]}]}}]}`, "does not support oneOf, allOf, or anyOf at the top level"},
	{"a tool of chat", `{` + max + `"messages":[` + hello + `],"tools":[{"type":"function","function":{"name":"f"}}]}`, "Input tag 'function'"},
	{"a tool of the provider", `{` + max + `"messages":[` + hello + `],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, ""},
	{"white space at the end of a prefill", `{` + max + `"messages":[` + hello + `,{"role":"assistant","content":"y "}]}`, "trailing whitespace"},
}

const (
	callItem = `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`
	outItem  = `{"type":"function_call_output","call_id":"a","output":"r"}`
)

var responsesCases = []strictCase{
	{"a text", `{"model":"m","input":"x"}`, ""},
	{"a user of 64 characters", `{"model":"m","input":"x","user":"` + strings.Repeat("u", 64) + `"}`, ""},
	{"a user of 65 characters", `{"model":"m","input":"x","user":"` + strings.Repeat("u", 65) + `"}`, "maximum length 64"},
	{"no input", `{"model":"m"}`, "'input'"},
	{"an empty input", `{"model":"m","input":[]}`, "must be provided"},
	{"a stored prompt alone", `{"prompt":{"id":"pmpt_1"}}`, ""},
	{"an unknown stored response", `{"model":"m","previous_response_id":"resp_1"}`, "Previous response with id 'resp_1' not found."},
	{"a response in the background that is not stored", `{"model":"m","input":"x","background":true,"store":false}`, "'store' to be true"},
	{"no model", `{"input":"x"}`, "model"},
	{"an unknown member", `{"model":"m","input":"x","max_tokens":5}`, "Unknown parameter: 'max_tokens'"},
	{"a call and its result", `{"model":"m","input":[` + callItem + `,` + outItem + `]}`, ""},
	{"a result without a call", `{"model":"m","input":[` + outItem + `]}`, "No tool call found"},
	{"a call without a result", `{"model":"m","input":[` + callItem + `]}`, "No tool output found"},
	{"the parts of another role", `{"model":"m","input":[{"role":"assistant","content":[{"type":"input_text","text":"x"}]}]}`, "output_text"},
	{"foreign thinking", `{"model":"m","input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"role":"user","content":"x"}]}`, "could not be verified"},
	{"thinking alone", `{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","id":"rs_1","summary":[]}]}`, "required following item"},
	{"the nested form of a tool", `{"model":"m","input":"x","tools":[{"type":"function","function":{"name":"f"}}]}`, "function"},
	{"a strict schema that is open", `{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}}}`, "additionalProperties"},
	{"an id of another kind", `{"model":"m","input":[{"type":"message","id":"x","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`, "begins with 'msg'"},
	{"few tokens", `{"model":"m","input":"x","max_output_tokens":15}`, "max_output_tokens"},
	{"an unknown truncation", `{"model":"m","input":"x","truncation":"x"}`, "truncation"},
	{"an unknown tier", `{"model":"m","input":"x","service_tier":"x"}`, "service_tier"},
	{"metadata that is a number", `{"model":"m","input":"x","metadata":{"a":1}}`, "metadata.a"},
	{"long metadata", `{"model":"m","input":"x","metadata":{"a":"` + strings.Repeat("x", 513) + `"}}`, "at most 512"},
	{"two histories", `{"model":"m","input":"x","previous_response_id":"resp_1","conversation":"conv_1"}`, "Mutually exclusive"},
}

const (
	part   = `{"role":"user","parts":[{"text":"x"}]}`
	fcall  = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`
	fresp  = `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}}]}`
	fwrong = `{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"AAAA"}]}`
)

var geminiCases = []strictCase{
	{"a schema in the spelling of protocol buffers", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"responseMimeType":"application/json",` +
		`"responseSchema":{"type":"OBJECT","properties":{"a_b":{"any_of":[{"type":"STRING","max_length":"3"}]},"c":{"type":"STRING"}},"property_ordering":["c","a_b"],"required":["a_b"]}}}`, ""},
	{"an unknown member of a schema", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","order_of_properties":["c"]}}}`, "order"},
	{"a body", `{"contents":[` + part + `]}`, ""},
	{"snake case", `{"contents":[` + part + `],"generation_config":{"max_output_tokens":5}}`, ""},
	{"an unknown member", `{"contents":[` + part + `],"messages":[]}`, `Unknown name "messages"`},
	{"an unknown member of the config", `{"contents":[` + part + `],"generationConfig":{"maxTokens":1}}`, `Unknown name "maxTokens" at 'generationConfig'`},
	{"no contents", `{}`, "contents"},
	{"no parts", `{"contents":[{"role":"user","parts":[]}]}`, "parts"},
	{"another role", `{"contents":[{"role":"assistant","parts":[{"text":"x"}]}]}`, "role"},
	{"a call and its result", `{"contents":[` + part + `,` + fcall + `,` + fresp + `]}`, ""},
	{"a result without a call", `{"contents":[` + fresp + `]}`, "number of function response parts"},
	{"a call without a result", `{"contents":[` + part + `,` + fcall + `,` + part + `]}`, "number of function response parts"},
	{"a call first", `{"contents":[` + fcall + `,` + fresp + `]}`, "immediately after"},
	{"a foreign signature", `{"contents":[` + part + `,` + fwrong + `,` + fresp + `]}`, "Corrupted thought signature"},
	{"the text of a signature that says skip", `{"contents":[` + part + `,` + strings.Replace(fwrong, "AAAA", "skip_thought_signature_validator", 1) + `,` + fresp + `]}`, ""},
	{"JSON Schema as parameters", `{"contents":[` + part + `],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","additionalProperties":false}}]}]}`, "additionalProperties"},
	{"a type that is a list", `{"contents":[` + part + `],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":["string","null"]}}}}]}]}`, "type"},
	{"budget and level", `{"contents":[` + part + `],"generationConfig":{"thinkingConfig":{"thinkingBudget":5,"thinkingLevel":"LOW"}}}`, "only one"},
	{"a schema without a type of response", `{"contents":[` + part + `],"generationConfig":{"responseSchema":{"type":"OBJECT"}}}`, "responseMimeType"},
	{"two things in a part", `{"contents":[{"role":"user","parts":[{"text":"x","inlineData":{}}]}]}`, "only one"},
}

const (
	cuser  = `{"role":"user","content":[{"text":"x"}]}`
	ctool  = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}`
	cres   = `{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"r"}]}}]}`
	config = `"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}`
)

func TestTheSimulatorIsAsStrictAsTheProvider(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for name, cases := range map[string][]strictCase{"messages": messagesCases, "responses": responsesCases, "gemini": geminiCases,
		"converse": converseCases, "cohere": cohereCases, "ollama": ollamaCases} {
		g := mustProtocol(t, name)
		for _, tt := range cases {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				path, _ := g.request("m", simpleQuestion, false)
				a := h.mustPost(path, tt.body, g.header...)
				want := http.StatusOK
				if tt.want != "" {
					want = http.StatusBadRequest
				}
				body := a.body
				if a.StatusCode != want || tt.want != "" && !strings.Contains(g.fault(mustObject(t, body)), tt.want) {
					t.Errorf("%d %.400s, want %d with %q", a.StatusCode, a.body, want, tt.want)
				}
			})
		}
	}
}

func mustProtocol(t *testing.T, name string) *protocolCase {
	t.Helper()
	for _, g := range protocolCases {
		if g.name == name {
			return g
		}
	}
	t.Fatalf("protocol %q not found", name)
	return nil
}

func TestHostsRefuseWhatIsNotTheirs(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	body := `"max_tokens":5,"messages":[` + hello + `]`
	url := `"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://else.invalid/a"}}]}]`
	google := vertexPath + "google/models/m:generateContent"
	call := `{"contents":[` + part + `,` + strings.Replace(fcall, `"name"`, `"id":"a","name"`, 1) + `,` + fresp + `]}`
	for _, tt := range []struct {
		name, path, body string
		want             int
	}{
		{"bedrock", "/model/m/invoke", `{"anthropic_version":"bedrock-2023-05-31",` + body + `}`, 200},
		{"bedrock with a model", "/model/m/invoke", `{"anthropic_version":"bedrock-2023-05-31","model":"m",` + body + `}`, 400},
		{"bedrock with a stream", "/model/m/invoke", `{"anthropic_version":"bedrock-2023-05-31","stream":true,` + body + `}`, 400},
		{"bedrock without a version", "/model/m/invoke", `{` + body + `}`, 400},
		{"bedrock with an address", "/model/m/invoke", `{"anthropic_version":"bedrock-2023-05-31",` + url + `}`, 400},
		{"vertex of another version", vertexPath + "anthropic/models/m:rawPredict", `{"anthropic_version":"2023-06-01",` + body + `}`, 400},
		{"anthropic with a version", "/v1/messages", `{"model":"m","anthropic_version":"2023-06-01",` + body + `}`, 400},
		{"anthropic with an address", "/v1/messages", `{"model":"m",` + url + `}`, 200},
		{"an id of a call on the Gemini API", "/v1beta/models/m:generateContent", call, 200},
		{"an id of a call on Vertex AI", google, call, 400},
		{"labels on Vertex AI", google, `{"contents":[` + part + `],"labels":{}}`, 200},
		{"labels on the Gemini API", "/v1beta/models/m:generateContent", `{"contents":[` + part + `],"labels":{}}`, 400},
		{"no role on Vertex AI", google, `{"contents":[{"parts":[{"text":"x"}]}]}`, 400},
		{"no role on the Gemini API", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := h.mustPost(tt.path, tt.body, "Anthropic-Version", "2023-06-01"); a.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", a.StatusCode, a.body, tt.want)
			}
		})
	}
	if a := h.mustPost("/v1/messages", `{"model":"m",`+body+`}`); a.StatusCode != 400 {
		t.Errorf("without anthropic-version: %d", a.StatusCode)
	}
	for version, want := range map[string]int{"2023-01-01": 200, "2026-10-21": 200, "latest": 400, "2023-06-01, 2023-06-01": 400} {
		if a := h.mustPost("/v1/messages", `{"model":"m",`+body+`}`, "Anthropic-Version", version); a.StatusCode != want {
			t.Errorf("anthropic-version %s: %d %s, want %d", version, a.StatusCode, a.body, want)
		}
	}
}

func TestCountsAndEmbeddingsOfEveryProvider(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	claude := `{"anthropic_version":"bedrock-2023-05-31","max_tokens":5,"messages":[` + hello + `]}`
	for _, tt := range []struct{ path, body, want string }{
		{"/v1/messages/count_tokens", `{"model":"m","messages":[` + hello + `]}`, `{"input_tokens":5}`},
		{vertexPath + "anthropic/models/count-tokens:rawPredict", `{"model":"m","messages":[` + hello + `]}`, `{"input_tokens":5}`},
		{"/model/m/count-tokens", `{"input":{"converse":{"messages":[` + cuser + `]}}}`, `{"inputTokens":5}`},
		{"/model/m/count-tokens", `{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(claude)) + `"}}}`, `{"inputTokens":5}`},
		{"/v1beta/models/m:countTokens", `{"contents":[` + part + `]}`, `{"totalTokens":5,`},
		{"/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"x"}]},"outputDimensionality":1}`, `{"embedding":{"values":[`},
		{"/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/m","content":{"parts":[{"text":"x"}]},"outputDimensionality":1}]}`, `{"embeddings":[{"values":[`},
		{vertexPath + "google/models/m:predict", `{"instances":[{"content":"x"}],"parameters":{"outputDimensionality":1}}`, `{"predictions":[{"embeddings":{"values":[`},
		{"/model/m/invoke", `{"inputText":"x","dimensions":1}`, `{"embedding":[`},
		{"/model/m/invoke", `{"texts":["x"],"input_type":"search_query","output_dimension":256}`, `{"id":"sim-`},
		{"/model/m/invoke", `{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{"embeddingPurpose":"GENERIC_INDEX","embeddingDimension":256,"text":{"truncationMode":"END","value":"x"}}}`, `{"embeddings":[{"embeddingType":"TEXT","embedding":[`},
		{"/model/m/invoke", `{"query":"red fox","documents":["a dog","a red fox"],"top_n":1,"api_version":2}`, `{"results":[{"index":1,"relevance_score":1.00}]}`},
		{vertexPath + "google/models/m:countTokens", `{"contents":[` + part + `]}`, `{"totalTokens":5,`},
		{"/endpoints/e/invocations", `{"messages":[` + hello + `]}`, `{"id":"chatcmpl-`},
		{"/v2/embed", `{"model":"m","texts":["x"],"input_type":"search_query","output_dimension":256,"embedding_types":["int8","ubinary"]}`, `{"id":"sim-`},
		{"/v2/rerank", `{"model":"m","query":"red fox","documents":["a dog","a red fox","red"],"top_n":2}`, `{"id":"sim-`},
		{"/api/embed", `{"model":"m","input":["x","y"],"dimensions":1}`, `{"model":"m","embeddings":[[`},
	} {
		a := h.mustPost(tt.path, tt.body, "Anthropic-Version", "2023-06-01")
		mustObject(t, a.body)
		if a.StatusCode != 200 || !strings.HasPrefix(a.body, tt.want) {
			t.Errorf("%s: %d %.200s, want %s", tt.path, a.StatusCode, a.body, tt.want)
		}
	}
	order := h.mustPost("/v2/rerank", `{"model":"m","query":"red fox","documents":["a dog","a red fox","red"],"top_n":2}`).body
	if !strings.Contains(order, `"results":[{"index":1,"relevance_score":1.00},{"index":2,"relevance_score":0.50}]`) {
		t.Errorf("order = %s", order)
	}
	for path, body := range map[string]string{
		"/v2/embed":       `{"model":"m","texts":["x"]}`,
		"/model/m/invoke": `{"query":"q","documents":["a"]}`,
		"/model/n/invoke": `{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{"text":{"value":"x"}}}`,
		vertexPath + "google/models/m:countTokens": `{"contents":[` + part + `],"safetySettings":[]}`,
		"/v1beta/models/m:countTokens":             `{"contents":[` + part + `],"systemInstruction":{"parts":[{"text":"x"}]}}`,
	} {
		if a := h.mustPost(path, body); a.StatusCode != 400 {
			t.Errorf("%s with %s: %d", path, body, a.StatusCode)
		}
	}
}

func TestThinkingComesBackUnchanged(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	q := question{user: "x", tools: []string{"weather"}, think: true}
	for name, next := range map[string]func(a parsed) string{
		"messages": func(a parsed) string {
			m := messagesBody(q)
			m["model"] = "m"
			m["messages"] = append(m["messages"].([]any), object{"role": "assistant", "content": []any{
				object{"type": "thinking", "thinking": a.thinking, "signature": a.sign},
				object{"type": "tool_use", "id": a.calls[0].id, "name": "weather", "input": object{}},
			}}, object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": a.calls[0].id, "content": "r"}}})
			return asJSON(m)
		},
		"converse": func(a parsed) string {
			m := converseBody(q)
			m["messages"] = append(m["messages"].([]any), object{"role": "assistant", "content": []any{
				object{"reasoningContent": object{"reasoningText": object{"text": a.thinking, "signature": a.sign}}},
				object{"toolUse": object{"toolUseId": a.calls[0].id, "name": "weather", "input": object{}}},
			}}, object{"role": "user", "content": []any{object{"toolResult": object{"toolUseId": a.calls[0].id, "content": []any{object{"text": "r"}}}}}})
			return asJSON(m)
		},
		"responses": func(a parsed) string {
			m := responsesBody(q)
			m["model"] = "m"
			m["input"] = append(m["input"].([]any), object{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": a.sign},
				object{"type": "function_call", "call_id": a.calls[0].id, "name": "weather", "arguments": "{}"},
				object{"type": "function_call_output", "call_id": a.calls[0].id, "output": "r"})
			return asJSON(m)
		},
		"gemini": func(a parsed) string {
			m := geminiBody(q)
			m["contents"] = append(m["contents"].([]any), object{"role": "model", "parts": []any{
				object{"functionCall": object{"name": "weather", "args": object{}}, "thoughtSignature": a.sign}}},
				object{"role": "user", "parts": []any{object{"functionResponse": object{"name": "weather", "response": object{"output": "r"}}}}})
			return asJSON(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := mustProtocol(t, name)
			path, _ := g.request("m", q, false)
			first := g.readComplete(t, h, "m", q)
			if a := h.mustPost(path, next(first), g.header...); a.StatusCode != 200 || !strings.HasPrefix(g.understand(t, a.body).text, "echo: x") {
				t.Errorf("unchanged: %d %.300s", a.StatusCode, a.body)
			}
			first.sign = first.sign[:len(first.sign)-8] + "AAAAAAAA"
			if a := h.mustPost(path, next(first), g.header...); a.StatusCode != 400 {
				t.Errorf("changed: %d %.300s", a.StatusCode, a.body)
			}
		})
	}
}

func TestCheckRefusesRequests(t *testing.T) {
	check := func(r *http.Request, body []byte) error {
		a := r.Header.Get("Authorization")
		if a != "Bearer wrong" && !strings.HasPrefix(a, "AWS4-HMAC-SHA256 Credential=AK") || !strings.Contains(string(body), "Say it") {
			return errors.New("the signature does not match")
		}
		return nil
	}
	h := mustRecord(t, recorder.Options{Options: simulator.Options{Key: "k"}, Check: check})
	g := mustProtocol(t, "converse")
	path, body := g.request("m", simpleQuestion, false)
	for _, tt := range []struct {
		authorization string
		want          int
	}{
		{"AWS4-HMAC-SHA256 Credential=AK", 200},
		{"AWS4-HMAC-SHA256 Credential=Other", 403},
		{"Bearer k", 403},
		{"Bearer wrong", 401},
	} {
		a := h.mustPost(path, body, "Authorization", tt.authorization)
		if kind := a.Header.Get("X-Amzn-Errortype"); a.StatusCode != tt.want || tt.want == 403 && !strings.HasPrefix(kind, "InvalidSignatureException") {
			t.Errorf("%s: %d %s %s, want %d", tt.authorization, a.StatusCode, kind, a.body, tt.want)
		}
	}
}

func TestGeminiStreamsAnArrayWithoutServerSentEvents(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	_, body := mustProtocol(t, "gemini").request("m", simpleQuestion, true)
	a := h.mustPost("/v1beta/models/m:streamGenerateContent", body)
	var whole parsed
	for _, v := range listAt(mustObject(t, `{"list":`+a.body+`}`), "list") {
		readGemini(&whole, v.(object))
	}
	if len(whole.text) != 256 || whole.stop != "STOP" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("heard %+v of %.200s", whole, a.body)
	}
	refused := h.mustPost(vertexPath+"google/models/m:streamGenerateContent?alt=sse", `{}`)
	if refused.StatusCode != 400 || !strings.HasPrefix(refused.body, `[{"error":`) {
		t.Errorf("%d %s", refused.StatusCode, refused.body)
	}
}

// The body of any request is checked, never trusted.
func FuzzAnyBody(f *testing.F) {
	for _, cases := range [][]strictCase{messagesCases, responsesCases, geminiCases, converseCases, cohereCases, ollamaCases} {
		for _, tt := range cases {
			f.Add(tt.body)
		}
	}
	sim := simulator.New(simulator.Options{})
	f.Fuzz(func(t *testing.T, body string) {
		for _, g := range protocolCases {
			path, _ := g.request("m", simpleQuestion, false)
			r, err := http.NewRequest("POST", path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Anthropic-Version", "2023-06-01")
			w := &statusSink{sink: sink{header: http.Header{}}}
			sim.ServeHTTP(w, r)
			if w.status != 200 && (w.status < 400 || w.status > 499) {
				t.Errorf("%s: %d", g.name, w.status)
			}
		}
	})
}

// statusSink is a sink that keeps the status.
type statusSink struct {
	sink
	status int
}

func (r *statusSink) WriteHeader(status int) { r.status = status }
