package responses_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// codexRequest has everything that the command line client of the protocol's
// vendor sends.
const codexRequest = `{
	"model":"gpt-5.3-codex","instructions":"You are a coding agent.",
	"input":[
		{"type":"message","role":"developer","content":[{"type":"input_text","text":"<permissions>"}]},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]},
		{"type":"reasoning","summary":[{"type":"summary_text","text":"look"}],"content":null,"encrypted_content":"gAAAA"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}],"phase":"commentary"},
		{"type":"function_call","name":"exec","arguments":"{\"cmd\":\"ls\"}","call_id":"call_1"},
		{"type":"custom_tool_call","status":"completed","call_id":"call_2","name":"apply_patch","input":"*** Begin Patch"},
		{"type":"function_call","name":"search","namespace":"mcp__docs","arguments":"{}","call_id":"call_3"},
		{"type":"function_call_output","call_id":"call_1","output":"a.go"},
		{"type":"custom_tool_call_output","call_id":"call_2","output":"Done"},
		{"type":"function_call_output","call_id":"call_3","output":[{"type":"input_text","text":"found"},{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"high"}]},
		{"type":"local_shell_call","call_id":"call_4","status":"completed","action":{"type":"exec","command":["ls"]}},
		{"type":"local_shell_call_output","id":"call_4","output":"x"},
		{"type":"compaction","encrypted_content":"zzz"}
	],
	"tools":[
		{"type":"function","name":"exec","description":"Runs","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}},
		{"type":"custom","name":"apply_patch","description":"Patches","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
		{"type":"namespace","name":"mcp__docs","description":"Docs","tools":[
			{"type":"function","name":"search","description":"Searches","strict":false,"defer_loading":true,"parameters":{"type":"object","properties":{}}},
			{"type":"function","name":"fetch","strict":false,"parameters":{"type":"object","properties":{}}}]},
		{"type":"local_shell"},
		{"type":"web_search","external_web_access":true}
	],
	"tool_choice":"auto","parallel_tool_calls":false,
	"reasoning":{"effort":"medium","summary":"auto","context":"all_turns"},
	"store":false,"stream":true,"stream_options":{"include_obfuscation":false},
	"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","service_tier":"priority",
	"text":{"verbosity":"low"},"client_metadata":{"session":"s"}
}`

func mustDecode(t testing.TB, body string) *llm.Request {
	t.Helper()
	r, err := responses.Dialect{}.DecodeRequest([]byte(body))
	if err != nil {
		t.Fatalf("DecodeRequest(%s): %v", body, err)
	}
	return r
}

func TestCodexRequestsSurviveARoundTrip(t *testing.T) {
	r := mustDecode(t, codexRequest)
	body, fates, err := responses.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf("openai", r.Model))
	if err != nil || len(fates) > 0 {
		t.Fatalf("EncodeRequest told %v, %v", fates, err)
	}
	if diff := cmp.Diff(canonical(t, []byte(codexRequest)), canonical(t, body)); diff != "" {
		t.Errorf("it came back otherwise (-want +got):\n%s", diff)
	}
}

func TestRequestsOfCodexAreDecoded(t *testing.T) {
	r := mustDecode(t, codexRequest)
	want := []llm.Message{
		{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "You are a coding agent."}}},
		{Role: llm.Developer, Parts: []llm.Part{llm.Text{Text: "<permissions>"}}},
		{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "fix it"}}},
		{Role: llm.Assistant, Parts: []llm.Part{
			llm.Thinking{Text: "look", Summary: true, Signature: llm.Signature{Vendor: llm.OpenAI, Value: "gAAAA"}},
			llm.Text{Text: "I look."},
			llm.ToolCall{ID: "call_1", Name: "exec", Arguments: `{"cmd":"ls"}`},
			llm.ToolCall{ID: "call_2", Name: "apply_patch", Arguments: "*** Begin Patch", Custom: true, Extra: []llm.Member{{Name: "status", Value: json.RawMessage(`"completed"`)}}},
			llm.ToolCall{ID: "call_3", Name: "mcp__docs__search", Arguments: "{}", Extra: []llm.Member{{Name: "namespace", Value: json.RawMessage(`{"name":"mcp__docs","description":"","tool":"search"}`)}}},
		}, Extra: []llm.Member{{Name: "phase", Value: json.RawMessage(`"commentary"`)}}},
		{Role: llm.User, Parts: []llm.Part{
			llm.ToolResult{ID: "call_1", Parts: []llm.Part{llm.Text{Text: "a.go"}}},
			llm.ToolResult{ID: "call_2", Custom: true, Parts: []llm.Part{llm.Text{Text: "Done"}}},
			llm.ToolResult{ID: "call_3", Parts: []llm.Part{llm.Text{Text: "found"}, llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA", Detail: "high"}}},
		}},
	}
	got := r.Messages
	if len(got) != 8 {
		t.Fatalf("%d messages, want 8", len(got))
	}
	natives := []llm.Part{
		llm.ToolCall{ID: "call_4", Name: "local_shell", Arguments: `{"type":"exec","command":["ls"]}`},
		llm.ToolResult{ID: "call_4", Parts: []llm.Part{llm.Text{Text: "x"}}},
	}
	for i, want := range natives {
		if diff := cmp.Diff([]llm.Part{want}, got[5+i].Parts[0].(llm.Native).Parts, dialecttest.Same()); diff != "" {
			t.Errorf("parts of a local shell (-want +got):\n%s", diff)
		}
	}
	if n := got[7].Parts[0].(llm.Native); n.Type != "compaction" || n.Needed == "" {
		t.Errorf("the compaction is %+v, want it needed", n)
	}
	if diff := cmp.Diff(want, got[:5], dialecttest.Same()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if got[3].At != "input[2]" || got[4].Parts[2].(llm.ToolResult).At != "input[9]" {
		t.Errorf("At = %q and %q, want input[2] and input[9]", got[3].At, got[4].Parts[2].(llm.ToolResult).At)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name+string(tool.Server))
	}
	if diff := cmp.Diff([]string{"exec", "apply_patch", "mcp__docs__search", "mcp__docs__fetch", "", "web_search"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if want := `{"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}`; string(r.Tools[1].Grammar) != want {
		t.Errorf("Grammar = %s, want %s", r.Tools[1].Grammar, want)
	}
	var extra []string
	for _, m := range r.Extra {
		extra = append(extra, m.Name)
	}
	if diff := cmp.Diff([]string{"store", "prompt_cache_key", "client_metadata"}, extra); diff != "" {
		t.Errorf("Extra (-want +got):\n%s", diff)
	}
}

func TestRefusesNamingTheElement(t *testing.T) {
	for _, tt := range []struct{ name, body, param, code string }{
		{"kept answers", `{"model":"m","input":"x","previous_response_id":"resp_1"}`, "previous_response_id", dialect.CodeUnsupported},
		{"kept conversations", `{"model":"m","input":"x","conversation":{"id":"c"}}`, "conversation", dialect.CodeUnsupported},
		{"kept prompts", `{"model":"m","prompt":{"id":"p"}}`, "prompt", dialect.CodeUnsupported},
		{"work in the background", `{"model":"m","input":"x","background":true}`, "background", dialect.CodeUnsupported},
		{"results without a call", `{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":"x"}]}`, "input[0].call_id", dialect.CodeValue},
		{"unknown roles", `{"model":"m","input":[{"role":"wizard","content":"x"}]}`, "input[0].role", dialect.CodeValue},
		{"images that are not base64", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,!!"}]}]}`, "input[0].content[1].image_url", dialect.CodeValue},
		{"files that are not base64", `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_data":"??"}]}]}`, "input[0].content[0].file_data", dialect.CodeValue},
		{"images of nothing", `{"model":"m","input":[{"role":"user","content":[{"type":"input_image"}]}]}`, "input[0].content[0]", dialect.CodeMissing},
		{"schemas that are not an object", `{"model":"m","input":"x","tools":[{"type":"function","name":"a"},{"type":"function","name":"f","parameters":"s"}]}`, "tools[1].parameters", dialect.CodeType},
		{"tools without a name", `{"model":"m","input":"x","tools":[{"type":"function"}]}`, "tools[0].name", dialect.CodeMissing},
		{"long names", `{"model":"m","input":"x","tools":[{"type":"custom","name":"` + strings.Repeat("n", 129) + `"}]}`, "tools[0].name", dialect.CodeValue},
		{"tools of namespaces without a name", `{"model":"m","input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]}`, "tools[0].tools[0].name", dialect.CodeMissing},
		{"calls without an id", `{"model":"m","input":[{"type":"function_call","name":"f","arguments":"{}"}]}`, "input[0].call_id", dialect.CodeMissing},
		{"formats without a schema", `{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"n"}}}`, "text.format.schema", dialect.CodeType},
		{"unknown formats", `{"model":"m","input":"x","text":{"format":{"type":"xml"}}}`, "text.format.type", dialect.CodeValue},
		{"metadata that is not text", `{"model":"m","input":"x","metadata":{"a":1}}`, "metadata.a", dialect.CodeType},
		{"unknown choices", `{"model":"m","input":"x","tool_choice":"maybe"}`, "tool_choice", dialect.CodeValue},
		{"items that are not an object", `{"model":"m","input":["x"]}`, "input[0]", dialect.CodeType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := responses.Dialect{}.DecodeRequest([]byte(tt.body))
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Kind != apierr.Invalid || e.Param != tt.param || e.Code != tt.code {
				t.Errorf("DecodeRequest = %+v, want %s of %s", err, tt.code, tt.param)
			}
		})
	}
}

func TestNullIsNotSent(t *testing.T) {
	r := mustDecode(t, `{"model":"m","input":"x","previous_response_id":null,"background":false,"conversation":null,"prompt":null,"temperature":null,"tools":null,"instructions":null,"store":null}`)
	want := &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "x"}}}}}
	if diff := cmp.Diff(want, r, dialecttest.Same()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMessageOfTheModelBehindOpenCallsJoinsThem(t *testing.T) {
	r := mustDecode(t, `{"model":"m","input":[
		{"role":"assistant","content":"a"},
		{"type":"function_call","call_id":"c","name":"f","arguments":""},
		{"role":"assistant","content":"b"},
		{"type":"function_call_output","call_id":"c","output":""},
		{"role":"assistant","content":"c"},
		{"role":"assistant","content":"d"}]}`)
	var roles []string
	for _, m := range r.Messages {
		roles = append(roles, string(m.Role)+strings.Repeat("+", len(m.Parts)))
	}
	if diff := cmp.Diff([]string{"assistant+++", "user+", "assistant+", "assistant+"}, roles); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSignaturesTellTheirVendor(t *testing.T) {
	r := mustDecode(t, `{"model":"m","input":[
		{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"mg1.anthropic.AA"},
		{"type":"reasoning","summary":[],"encrypted_content":"mg1.anthropic.redacted.BB"},
		{"type":"reasoning","summary":[],"encrypted_content":"mg1.google.CC"},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"reasoning","summary":[],"encrypted_content":"DD"}]}`)
	want := []llm.Part{
		llm.Thinking{Text: "a", Signature: llm.Signature{Vendor: llm.Anthropic, Value: "AA"}},
		llm.Thinking{Redacted: true, Signature: llm.Signature{Vendor: llm.Anthropic, Value: "BB"}},
		llm.ToolCall{ID: "c", Name: "f", Arguments: "{}", Signature: llm.Signature{Vendor: llm.Google, Value: "CC"}},
		llm.Thinking{Summary: true, Signature: llm.Signature{Vendor: llm.OpenAI, Value: "DD"}},
	}
	if diff := cmp.Diff(want, r.Messages[0].Parts, dialecttest.Same()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
