package messages_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// check runs Check and returns the parameter and the code of the refusal.
func check(t *testing.T, op api.Operation, body string) string {
	t.Helper()
	var d jsonedit.Doc
	if err := d.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
	err := messages.Dialect{}.Check(op, &d)
	if err == nil {
		return ""
	}
	if err.Kind != apierr.Invalid || !strings.Contains(err.Message, err.Param) {
		t.Errorf("Check = %+v, want an invalid request whose message names the parameter", err)
	}
	return err.Param + " " + err.Code
}

func TestCheckDemandsWhatTheProtocolDoes(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":1}`:                                                 "model missing_required_parameter",
		`{"model":null,"messages":[],"max_tokens":1}`:                                                                 "model missing_required_parameter",
		`{"model":"","messages":[],"max_tokens":1}`:                                                                   "model invalid_value",
		`{"model":1,"messages":[],"max_tokens":1}`:                                                                    "model invalid_type",
		`{"model":"m","max_tokens":1}`:                                                                                "messages missing_required_parameter",
		`{"model":"m","messages":[],"max_tokens":1}`:                                                                  "messages invalid_value",
		`{"model":"m","messages":"x","max_tokens":1}`:                                                                 "messages invalid_type",
		`{"model":"m","messages":["x"],"max_tokens":1}`:                                                               "messages[0] invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"},{"content":"x"}],"max_tokens":1}`:                     "messages[1].role missing_required_parameter",
		`{"model":"m","messages":[{"role":"tool","content":"x"}],"max_tokens":1}`:                                     "messages[0].role invalid_value",
		`{"model":"m","messages":[{"role":7,"content":"x"}],"max_tokens":1}`:                                          "messages[0].role invalid_type",
		`{"model":"m","messages":[{"role":"user"}],"max_tokens":1}`:                                                   "messages[0].content missing_required_parameter",
		`{"model":"m","messages":[{"role":"user","content":7}],"max_tokens":1}`:                                       "messages[0].content invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}]}`:                                                    "max_tokens missing_required_parameter",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":-1}`:                                    "max_tokens invalid_value",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1.5}`:                                   "max_tokens invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":0}`:                                     "",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"system":7}`:                          "system invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"temperature":1.01}`:                  "temperature invalid_value",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"temperature":1e999}`:                 "temperature invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"top_p":-0.1}`:                        "top_p invalid_value",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"top_k":-1}`:                          "top_k invalid_value",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"stop_sequences":["a",1]}`:            "stop_sequences[1] invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"stream":"yes"}`:                      "stream invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"metadata":[]}`:                       "metadata invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"service_tier":1}`:                    "service_tier invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"tools":[1]}`:                         "tools[0] invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"tool_choice":"auto"}`:                "tool_choice invalid_type",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"tool_choice":{}}`:                    "tool_choice.type missing_required_parameter",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"thinking":{"type":"much"}}`:          "thinking.type invalid_value",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"thinking":{"type":"enabled"},"a":1}`: "",
		`{"model":"m","messages":[{"role":"system","content":[{"type":"new"}]},{"role":"user","content":[]}],"max_tokens":1,"system":[],"temperature":null,"tools":[{"type":"new_20300101"}]}`: "",
	} {
		if got := check(t, api.Messages, body); got != want {
			t.Errorf("Check(%s) = %q, want %q", body, got, want)
		}
	}
	if got := check(t, api.CountTokens, `{"model":"m","messages":[{"role":"user","content":"x"}]}`); got != "" {
		t.Errorf("a count without max_tokens is refused for %q", got)
	}
	if got := check(t, api.Models, `{}`); got != "" {
		t.Errorf("another operation is refused for %q", got)
	}
}

func TestDecodeRequestNamesWhatIsWrong(t *testing.T) {
	image := func(source string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image","source":` + source + `}]}]}`
	}
	tool := func(rest string) string { return `{"messages":[],"tools":[{"name":"f",` + rest + `}]}` }
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	for body, want := range map[string]string{
		`[]`: " ",
		`{}`: "messages missing_required_parameter",
		`{"messages":[{"role":"user","content":[7]}]}`:                                                                                                          "messages[0].content[0] invalid_type",
		`{"messages":[{"role":"user","content":[{}]}]}`:                                                                                                         "messages[0].content[0].type missing_required_parameter",
		`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                                                                                            "messages[0].content[0].text missing_required_parameter",
		`{"messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}]}`:                                                         "messages[0].content[0].type invalid_value",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`:                                                              "messages[0].content[0].type invalid_value",
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`:                                                                   "messages[0].content[0].tool_use_id invalid_value",
		`{"messages":[` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_result"}]}]}]}`:                   "messages[1].content[0].content[0].type invalid_value",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":null}]}]}`:                                                  "messages[0].content[0].input invalid_type",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"","input":{}}]}]}`:                                                     "messages[0].content[0].name invalid_value",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}]}]}`: "messages[0].content[1].id invalid_value",
		image(`null`): "messages[0].content[0].source missing_required_parameter",
		image(`{"type":"base64","media_type":"image/png","data":"%%"}`): "messages[0].content[0].source.data invalid_value",
		image(`{"type":"base64","media_type":"image/png","data":""}`):   "messages[0].content[0].source.data invalid_value",
		image(`{"type":"tape"}`):                                 "messages[0].content[0].source.type invalid_value",
		image(`{"type":"url","url":""}`):                         "messages[0].content[0].source invalid_value",
		tool(`"description":"d"`):                                "tools[0].input_schema missing_required_parameter",
		tool(`"input_schema":[]`):                                "tools[0].input_schema invalid_type",
		tool(`"input_schema":{"type":"array"}`):                  "tools[0].input_schema.type invalid_value",
		tool(`"input_schema":{"type":"object","properties":[]}`): "tools[0].input_schema.properties invalid_type",
		tool(`"input_schema":{"type":"object","required":"a"}`):  "tools[0].input_schema.required invalid_type",
		`{"messages":[],"tools":[{"name":"` + strings.Repeat("a", 129) + `","input_schema":{}}]}`: "tools[0].name invalid_value",
		`{"messages":[],"tool_choice":{"type":"tool"}}`:                                           "tool_choice.name missing_required_parameter",
		`{"messages":[],"output_config":{"format":{"type":"json_schema"}}}`:                       "output_config.format.schema invalid_type",
		`{"messages":[],"output_config":{"format":{"type":"xml"}}}`:                               "output_config.format.type invalid_value",
		`{"messages":[],"temperature":"hot"}`:                                                     "temperature invalid_type",
		`{"messages":[],"stop_sequences":"x"}`:                                                    "stop_sequences invalid_type",
		`{"messages":[{"role":"robot","content":"x"}]}`:                                           "messages[0].role invalid_value",
	} {
		_, err := messages.Dialect{}.DecodeRequest([]byte(body))
		refusal, ok := errors.AsType[*apierr.Error](err)
		if !ok || refusal.Kind != apierr.Invalid || refusal.Param+" "+refusal.Code != want {
			t.Errorf("DecodeRequest(%s) = %v, want it refused for %s", body, err, want)
		}
	}
}

func TestRequestsAreReadWithAllTheySay(t *testing.T) {
	body := `{"system":"s","max_tokens":5,"model":"m","stop_sequences":["a"],"metadata":{"user_id":"u"},"service_tier":"standard_only","stream":true,
		"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}},"task_budget":{}},
		"tool_choice":{"type":"any","disable_parallel_tool_use":true},"speed":"fast","cache_control":{"type":"ephemeral","ttl":"1h"},
		"tools":[{"name":"f","description":"d","input_schema":{},"strict":true,"defer_loading":true},{"type":"web_search_20250305","name":"web_search","max_uses":1}],
		"messages":[{"role":"user","content":[{"type":"search_result","source":"https://a.example","title":"t","content":[{"type":"text","text":"x"}]},{"type":"new","a":1}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"mg1.google.Zw=="},{"type":"tool_use","id":"a","name":"f","input":{"b":1}},{"type":"text","text":"w"},{"type":"redacted_thinking","data":"mg1.google.eA=="},{"type":"redacted_thinking","data":"r"}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"bad"}]},{"role":"system","content":"late"}]}`
	got, err := messages.Dialect{}.DecodeRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := &llm.Request{
		Model: "m", MaxTokens: new(int64(5)), Stop: []string{"a"}, User: "u", ServiceTier: "default", Stream: true, Cache: &llm.Cache{TTL: "1h"},
		Reasoning:  llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(1024)), Effort: "low", Summary: "omitted"},
		Format:     llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{}`)},
		ToolChoice: llm.ToolChoice{Mode: llm.ChoiceRequired}, ParallelTools: new(false),
		Extra: []llm.Member{{Name: "output_config.task_budget", Value: json.RawMessage(`{}`)}, {Name: "speed", Value: json.RawMessage(`"fast"`)}},
		Tools: []llm.Tool{
			{Name: "f", Description: "d", Schema: json.RawMessage(`{}`), Strict: new(true), Extra: []llm.Member{{Name: "defer_loading", Value: json.RawMessage("true")}}},
			{Name: "web_search", Server: llm.WebSearch, Native: &llm.Native{Dialect: "messages", Type: "web_search_20250305", Raw: json.RawMessage(`{"type":"web_search_20250305","name":"web_search","max_uses":1}`)}},
		},
		Messages: []llm.Message{
			says(llm.System, llm.Text{Text: "s"}),
			says(llm.User, llm.Media{Kind: llm.Document, Name: "t", Context: "https://a.example", Parts: []llm.Part{llm.Text{Text: "x"}}, Extra: []llm.Member{{Name: "type", Value: json.RawMessage(`"search_result"`)}}},
				llm.Native{Dialect: "messages", Type: "new", Raw: json.RawMessage(`{"type":"new","a":1}`)}),
			says(llm.Assistant, llm.ToolCall{ID: "a", Name: "f", Arguments: `{"b":1}`, Signature: llm.Signature{Vendor: llm.Google, Value: "Zw=="}},
				llm.Text{Text: "w", Signature: llm.Signature{Vendor: llm.Google, Value: "eA=="}}, llm.Thinking{Redacted: true, Signature: llm.Signature{Vendor: llm.Anthropic, Value: "r"}}),
			says(llm.User, llm.ToolResult{ID: "a", Failed: true, Parts: []llm.Part{llm.Text{Text: "bad"}}}),
			says(llm.System, llm.Text{Text: "late"}),
		},
	}
	if diff := cmp.Diff(want, got, dialecttest.Same()...); diff != "" {
		t.Errorf("DecodeRequest (-want +got):\n%s", diff)
	}
}

func TestErrorsHaveTheShapeOfTheProtocol(t *testing.T) {
	d := messages.Dialect{}
	e := dialect.Invalid("model", dialect.CodeMissing, "is required")
	const body = `{"type":"error","error":{"type":"invalid_request_error","message":"model: is required","param":"model","code":"missing_required_parameter","source":"gateway"}}`
	if got := string(d.Error(e)); got != body {
		t.Errorf("Error = %s\nwant %s", got, body)
	}
	if got, want := string(d.ErrorEvent(nil, e)), "event: error\ndata: "+body+"\n\n"; got != want {
		t.Errorf("ErrorEvent = %s\nwant %s", got, want)
	}
	for kind, want := range map[apierr.Kind]string{
		apierr.Unauthenticated: "authentication_error", apierr.Forbidden: "permission_error", apierr.NotFound: "not_found_error",
		apierr.TooLarge: "request_too_large", apierr.RateLimited: "rate_limit_error", apierr.Internal: "api_error", apierr.UpstreamFailed: "api_error",
		apierr.UpstreamTimeout: "timeout_error", apierr.Unavailable: "overloaded_error", apierr.BudgetExhausted: "billing_error",
		apierr.Denied: "permission_error", apierr.Unsupported: "invalid_request_error", apierr.Conflict: "invalid_request_error",
	} {
		if got := string(d.Error(apierr.New(kind, "x"))); !strings.Contains(got, `"error":{"type":"`+want+`"`) {
			t.Errorf("Error of kind %d = %s, want type %s", kind, got, want)
		}
	}
}

func TestProviderErrorsStayOrAreMade(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{`{"type":"error", "error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}`,
			`{"type":"error", "error":{"type":"overloaded_error","message":"Overloaded","source":"provider"},"request_id":"r","provider":"p"}`},
		{`{"error":{"message":"no","type":"x"}}`, `{"type":"error","error":{"type":"rate_limit_error","message":"p answered 429: no","source":"provider"},"provider":"p"}`},
		{``, `{"type":"error","error":{"type":"rate_limit_error","message":"p answered 429 with an empty body","source":"provider"},"provider":"p"}`},
	} {
		if got := string((messages.Dialect{}).ProviderError(nil, []byte(tt.body), "p", 429)); got != tt.want {
			t.Errorf("ProviderError(%s) = %s\nwant %s", tt.body, got, tt.want)
		}
	}
}

var forClient = dialect.ResponseTarget{Request: &llm.Request{Model: "asked"}, Provider: "openai", ID: "0123456789abcdef0123456789abcdef"}

// outline encodes events and returns the types of what comes out, with what
// tells the blocks apart.
func outline(t *testing.T, events ...llm.Event) string {
	t.Helper()
	e := messages.Dialect{}.NewEncoder(forClient)
	var stream []byte
	for i := range events {
		stream = e.Encode(stream, &events[i])
	}
	frames, err := dialecttest.ServerSentEvents(strings.NewReader(string(stream)))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range frames {
		m := mustMap(t, string(f.Data))
		if m["type"] != string(f.Type) {
			t.Errorf("event %s has type %v", f.Type, m["type"])
		}
		out = append(out, inBrief(m))
	}
	return strings.Join(out, " ")
}

func inBrief(m map[string]any) string {
	var word strings.Builder
	word.WriteString(strings.TrimPrefix(m["type"].(string), "content_block_"))
	if index, ok := m["index"].(float64); ok {
		word.WriteString(string(rune('0' + int(index))))
	}
	for _, name := range []string{"content_block", "delta", "error"} {
		inner, _ := m[name].(map[string]any)
		cited, _ := inner["citation"].(map[string]any)
		for _, key := range []string{"type", "id", "name", "text", "thinking", "partial_json", "signature", "data", "stop_reason", "message"} {
			if text, ok := inner[key].(string); ok && text != "" {
				word.WriteString(":" + text)
			}
		}
		if cited != nil {
			word.WriteString(fmt.Sprintf(":%s:%s", cited["type"], cited["document_title"]))
		}
	}
	return word.String()
}

func event(kind llm.EventKind, part int, change func(e *llm.Event)) llm.Event {
	e := llm.Event{Kind: kind, Part: part}
	if change != nil {
		change(&e)
	}
	return e
}

func opens(part int, p llm.Part) llm.Event {
	return event(llm.EventPartStart, part, func(e *llm.Event) { e.Opened = p })
}

func adds(part int, text string) llm.Event {
	return event(llm.EventDelta, part, func(e *llm.Event) { e.Text = text })
}

func ends(part int) llm.Event { return event(llm.EventPartEnd, part, nil) }

// Clients print the last text of a message, and send back the citations of a
// text as they received them.
func TestSignatureOfTextComesBackInsideItsBlock(t *testing.T) {
	signed := llm.Text{Text: "w", Signature: llm.Signature{Vendor: llm.Google, Value: "eA=="}}
	body := messages.Dialect{}.EncodeResponse(nil, &llm.Response{Choices: []llm.Choice{{Parts: []llm.Part{llm.Thinking{Text: "hm"}, signed}}}}, forClient)
	content, err := json.Marshal(mustMap(t, string(body))["content"])
	if err != nil {
		t.Fatal(err)
	}
	var blocks []map[string]any
	if err := json.Unmarshal(content, &blocks); err != nil || blocks[len(blocks)-1]["type"] != "text" {
		t.Errorf("the last block is not the text: %s", content)
	}
	got, err := messages.Dialect{}.DecodeRequest([]byte(`{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":` + string(content) + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	parts := got.Messages[0].Parts
	if diff := cmp.Diff(signed, parts[len(parts)-1]); diff != "" {
		t.Errorf("the text came back as (-want +got):\n%s", diff)
	}
}

func TestStreamsAreWrittenInTheOrderOfTheProtocol(t *testing.T) {
	start, end := llm.Event{Kind: llm.EventStart, ID: "chatcmpl-1"}, llm.Event{Kind: llm.EventEnd}
	finish := func(stop llm.StopReason) llm.Event { return llm.Event{Kind: llm.EventFinish, Stop: stop} }
	signed := llm.Event{Kind: llm.EventDelta, Signature: llm.Signature{Vendor: llm.OpenAI, Value: "s"}}
	call := func(id string) llm.ToolCall { return llm.ToolCall{ID: id, Name: "f"} }
	for _, tt := range []struct {
		name   string
		events []llm.Event
		want   string
	}{
		{"nothing at all", []llm.Event{start, finish(llm.StopEnd), end}, "message_start ping message_delta:end_turn message_stop"},
		{"thinking, then words", []llm.Event{start, opens(0, llm.Thinking{}), adds(0, "hm"), signed, ends(0), opens(1, llm.Text{}), adds(1, "a"), ends(1), finish(llm.StopLength), end},
			"message_start ping start0:thinking delta0:thinking_delta:hm delta0:signature_delta:mg1.openai.s stop0 start1:text delta1:text_delta:a stop1 message_delta:max_tokens message_stop"},
		{"calls next to each other", []llm.Event{start, opens(0, call("a")), opens(1, call("b")), adds(1, `{"y":`), adds(0, `{"x":`), adds(1, `2}`), adds(0, `1}`), adds(0, " "), ends(0), ends(1), finish(llm.StopTool), end},
			`message_start ping start0:tool_use:a:f delta0:input_json_delta:{"x": delta0:input_json_delta:1} stop0 start1:tool_use:b:f delta1:input_json_delta:{"y":2} stop1 message_delta:tool_use message_stop`},
		{"calls one after the other stream as they come", []llm.Event{start, opens(0, call("a")), adds(0, `{"x":"}"}`), opens(1, call("b")), adds(1, `{`)},
			`message_start ping start0:tool_use:a:f delta0:input_json_delta:{"x":"}"} stop0 start1:tool_use:b:f delta1:input_json_delta:{`},
		{"quotes inside arguments end nothing", []llm.Event{start, opens(0, call("a")), opens(1, call("b")), adds(0, `{"x":"\\\"}`), adds(0, `"}`)},
			`message_start ping start0:tool_use:a:f delta0:input_json_delta:{"x":"\\\"} delta0:input_json_delta:"} stop0 start1:tool_use:b:f`},
		{"a call without id, and of free text", []llm.Event{start, opens(0, llm.ToolCall{Name: "f", Custom: true}), adds(0, `a"`), ends(0), finish(llm.StopEnd), end},
			`message_start ping start0:tool_use:toolu_0123456789abcdef0123456789abcdef0:f delta0:input_json_delta:{"input":" delta0:input_json_delta:a\" delta0:input_json_delta:"} stop0 message_delta:tool_use message_stop`},
		{"the signature of a call precedes it", []llm.Event{start, opens(0, llm.ToolCall{ID: "a", Name: "f", Signature: llm.Signature{Vendor: llm.Google, Value: "g"}}), ends(0)},
			"message_start ping start0:thinking delta0:signature_delta:mg1.google.g stop0 start1:tool_use:a:f stop1"},
		{"the signature of words is a citation of them", []llm.Event{start, opens(0, llm.Text{}), adds(0, "a"), {Kind: llm.EventDelta, Signature: llm.Signature{Vendor: llm.Google, Value: "g"}}, ends(0)},
			"message_start ping start0:text delta0:text_delta:a delta0:citations_delta:char_location:mg1.google.g stop0"},
		{"a refusal", []llm.Event{start, opens(0, llm.Refusal{}), adds(0, "no"), ends(0), finish(llm.StopEnd), end},
			"message_start ping start0:text delta0:text_delta:no stop0 message_delta:refusal message_stop"},
		{"what others know alone leaves no hole", []llm.Event{start, opens(0, llm.Native{Dialect: "gemini"}), ends(0), opens(1, llm.Text{}), ends(1)}, "message_start ping start0:text stop0"},
		{"its own come in one piece", []llm.Event{start, opens(0, llm.Native{Dialect: "messages", Raw: json.RawMessage(`{"type":"server_tool_use","id":"s","name":"n","input":{"q":1}}`)}), ends(0)},
			`message_start ping start0:server_tool_use:s:n delta0:input_json_delta:{"q":1} stop0`},
		{"one response alone", []llm.Event{start, {Kind: llm.EventPartStart, Choice: 1, Opened: llm.Text{}}, {Kind: llm.EventDelta, Choice: 1, Text: "x"}, opens(0, llm.Text{}), ends(0)}, "message_start ping start0:text stop0"},
		{"an error closes the block", []llm.Event{start, opens(0, llm.Text{}), adds(0, "a"), {Kind: llm.EventError, Fault: &llm.ProviderError{Type: "RESOURCE_EXHAUSTED", Message: "slow down"}}, end},
			"message_start ping start0:text delta0:text_delta:a stop0 error:rate_limit_error:slow down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := outline(t, tt.events...); got != tt.want {
				t.Errorf("wrote %s\nwant  %s", got, tt.want)
			}
		})
	}
}

func TestUsageOfStreamsLeavesCachesOut(t *testing.T) {
	e := messages.Dialect{}.NewEncoder(forClient)
	var stream []byte
	for _, ev := range []llm.Event{{Kind: llm.EventStart}, {Kind: llm.EventUsage, Usage: llm.Usage{Input: 5, CachedInput: 7, CacheWrite1h: 2, Output: 3, Reasoning: 4, Known: true}}, {Kind: llm.EventEnd}} {
		stream = e.Encode(stream, &ev)
	}
	const want = `"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":2},"output_tokens":7,"output_tokens_details":{"thinking_tokens":4}}}`
	if !strings.Contains(string(stream), want) || !strings.Contains(string(stream), `"model":"asked"`) {
		t.Errorf("stream %s\nwant it to hold %s and the model that was asked", stream, want)
	}
}

// emulated is a request whose answer comes as the arguments of a forced tool.
func emulated() *llm.Request {
	return asked(func(r *llm.Request) {
		r.Format = llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{"type":"object"}`)}
		r.Tools = []llm.Tool{{Name: "free", Custom: true}}
	})
}

func TestForcedResponsesAndFreeTextAreReturned(t *testing.T) {
	to := dialecttest.TargetOf("anthropic", "claude-sonnet-4-0")
	body := `{"type":"message","content":[{"type":"tool_use","id":"a","name":"json_response","input":{"a":1}}],"stop_reason":"tool_use","usage":{}}`
	frames := []string{`{"type":"message_start","message":{}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"json_response","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
		`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`}
	want := []llm.Choice{{Parts: []llm.Part{llm.Text{Text: `{"a":1}`}}, Stop: llm.StopEnd, NativeFinishReason: "tool_use"}}
	for range 2 {
		whole, err := messages.Dialect{}.DecodeResponse([]byte(body), emulated(), to)
		if err != nil {
			t.Fatal(err)
		}
		var a dialect.Assembler
		d := messages.Dialect{}.NewDecoder(emulated(), to)
		for _, f := range frames {
			for _, e := range d.Decode(nil, sse.Event{Data: []byte(f)}) {
				a.Add(&e)
			}
		}
		streamed, _, _ := a.Response()
		for _, got := range []*llm.Response{whole, streamed} {
			if diff := cmp.Diff(want, got.Choices, dialecttest.Same()...); diff != "" {
				t.Errorf("the response (-want +got):\n%s", diff)
			}
		}
		// Once more as a call of a tool that takes free text.
		free := strings.NewReplacer("json_response", "free", `{"a":1}`, `{"input":"x"}`, `{\"a\":`, `{\"input\":`, `"1}"`, `"\"x\"}"`)
		body = free.Replace(body)
		for i := range frames {
			frames[i] = free.Replace(frames[i])
		}
		want = []llm.Choice{{Parts: []llm.Part{llm.ToolCall{ID: "a", Name: "free", Custom: true, Arguments: "x"}}, Stop: llm.StopTool, NativeFinishReason: "tool_use"}}
	}
}

func TestAForcedResponseNextToACallWaitsForIt(t *testing.T) {
	body := `{"content":[{"type":"tool_use","id":"a","name":"json_response","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}],"stop_reason":"tool_use"}`
	got, err := messages.Dialect{}.DecodeResponse([]byte(body), emulated(), dialect.RequestTarget{Model: "claude-sonnet-4-0"})
	if err != nil || got.Choices[0].Stop != llm.StopTool || len(got.Choices[0].Parts) != 2 {
		t.Errorf("DecodeResponse = %+v, %v, want text and a call that is waited for", got, err)
	}
}

func TestFaultsInsideStreamsEndThem(t *testing.T) {
	got := decodeAll(sse.Event{Data: []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)}, sse.Event{Data: []byte(`{"type":"message_stop"}`)})
	if len(got) != 1 || got[0].Kind != llm.EventError || got[0].Fault.Type != "overloaded_error" || got[0].Fault.Message != "Overloaded" {
		t.Errorf("events %+v, want one error", got)
	}
	tap := messages.Dialect{}.NewTap(api.Messages)
	tap.Event(sse.Event{Type: []byte("error"), Data: []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)})
	if tap.Info().Failed != "Overloaded" {
		t.Errorf("Failed = %q, want Overloaded", tap.Info().Failed)
	}
}
