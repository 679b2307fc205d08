package bodytext_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/format/bodytext"
)

// texts returns all text of a body, each string with its kind.
func texts(b bodytext.Body) (list []string) {
	for _, t := range b.Texts {
		list = append(list, string(t.Kind)+": "+t.Value)
	}
	return list
}

func TestTextIsFoundWhereverADialectPutsIt(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		form       bodytext.Form
		want       []string
		uncovered  []string
	}{
		{"chat request", `{"model":"m","messages":[{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"https://x"}}]},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"res"}]}`,
			bodytext.Request, []string{"text: be", "text: hi", "parameter: f", `arguments: {"a":1}`, "text: res"}, []string{"image"}},
		{"completions", `{"model":"m","prompt":["a","b"],"suffix":"z"}`, bodytext.Request, []string{"text: a", "text: b", "text: z"}, nil},
		{"completions of tokens", `{"model":"m","prompt":[1,2]}`, bodytext.Request, nil, []string{"tokens"}},
		{"embeddings", `{"model":"m","input":["a",[1,2]]}`, bodytext.Request, []string{"text: a"}, []string{"tokens"}},
		{"images", `{"model":"m","prompt":"a cat","size":"1x1"}`, bodytext.Request, []string{"text: a cat", "parameter: 1x1"}, nil},
		{"rerank", `{"model":"m","query":"q","documents":["a",{"text":"b"}]}`, bodytext.Request, []string{"text: q", "text: a", "text: b"}, nil},
		{"messages request", `{"system":[{"type":"text","text":"be"}],"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"doc"}},{"type":"image","source":{"type":"base64","data":"aaaa"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{"a":{"b":["c"]}}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"}]}]}]}`,
			bodytext.Request, []string{"text: be", "parameter: text/plain", "text: doc", "thinking: hm", "parameter: f", "parameter: a", "parameter: b", "arguments: c", "text: r"}, []string{"media"}},
		{"responses request", `{"model":"m","instructions":"be","reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"}},"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"out"},{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"}]}`,
			bodytext.Request, []string{"text: be", "parameter: low", "parameter: auto", "text: hi", "parameter: f", "arguments: {}", "text: out", "thinking: s"}, []string{"encrypted"}},
		{"responses request of text", `{"model":"m","input":"hi"}`, bodytext.Request, []string{"text: hi"}, nil},
		{"gemini request", `{"systemInstruction":{"parts":[{"text":"be"}]},"contents":[{"role":"user","parts":[{"text":"hi"},{"inlineData":{"data":"a"}}]},{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"f","args":{"a":"b"}}}]},{"parts":[{"functionResponse":{"name":"f","response":{"r":"out"}}}]}]}`,
			bodytext.Request, []string{"text: be", "text: hi", "thinking: hm", "parameter: f", "parameter: a", "arguments: b", "parameter: f", "parameter: r", "arguments: out"}, []string{"media"}},
		{"converse request", `{"system":[{"text":"be"}],"messages":[{"role":"user","content":[{"text":"hi"},{"image":{"format":"png","source":{"bytes":"a"}}}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"f","input":{"a":"b"}}},{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"json":{"k":"v"}},{"text":"r"}]}}]}]}`,
			bodytext.Request, []string{"text: be", "text: hi", "parameter: f", "parameter: a", "arguments: b", "thinking: hm", "parameter: k", "arguments: v", "text: r"}, []string{"image"}},
		{"chat response", `{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"hm","refusal":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"},{"index":1,"message":{"content":"b"}}],"system_fingerprint":"fp"}`,
			bodytext.Response, []string{"text: a", "thinking: hm", "arguments: {}", "text: b"}, nil},
		{"messages response", `{"id":"m","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a","citations":[{"type":"char_location","cited_text":"c"}]},{"type":"tool_use","id":"1","name":"f","input":{"a":"b"}}],"stop_reason":"end_turn"}`,
			bodytext.Response, []string{"thinking: hm", "text: a", "text: c", "parameter: a", "arguments: b"}, nil},
		{"responses response", `{"id":"r","object":"response","instructions":"be","tools":[],"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]},{"type":"function_call","arguments":"{}","name":"f"}],"reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"}}}`,
			bodytext.Response, []string{"thinking: hm", "text: a", "arguments: {}"}, nil},
		{"gemini response", `{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"a"},{"functionCall":{"name":"f","args":{"a":"b"}}}]},"finishReason":"STOP","index":0}],"modelVersion":"m"}`,
			bodytext.Response, []string{"thinking: hm", "text: a", "parameter: a", "arguments: b"}, nil},
		{"converse response", `{"output":{"message":{"role":"assistant","content":[{"text":"a"},{"toolUse":{"toolUseId":"1","name":"f","input":{"a":"b"}}}]}},"stopReason":"end_turn"}`,
			bodytext.Response, []string{"text: a", "parameter: a", "arguments: b"}, nil},
		{"definitions of tools", `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"p":{"type":"string","enum":["e"]}}}}}],"tool_choice":"auto","messages":[{"role":"user","name":"n","content":"hi"}]}`,
			bodytext.Request, []string{"parameter: f", "parameter: d", "parameter: p", "parameter: e", "parameter: auto", "parameter: n", "text: hi"}, nil},
		{"members that are not in the table", `{"prediction":{"type":"content","content":"guess"},"functions":[{"description":"d"}],"response_format":{"json_schema":{"schema":{"description":"s"}}},"metadata":{"Key":"v","n":1},"messages":"in a string"}`,
			bodytext.Request, []string{"parameter: content", "parameter: guess", "parameter: d", "parameter: s", "parameter: Key", "parameter: v", "parameter: n", "parameter: in a string"}, nil},
		{"long numbers of arguments", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"card":4111111111111111,"n":12}}]}]}`,
			bodytext.Request, []string{"parameter: card", "parameter: 4111111111111111", "parameter: n"}, nil},
		{"identifiers", `{"a":{"id":"call_1","signature":"aGk=","model":"two words"},"user":"u","A name":1}`,
			bodytext.Request, []string{"parameter: model", "parameter: two words", "parameter: u", "parameter: A name"}, nil},
		{"definitions in a response", `{"tools":[{"description":"d"}],"metadata":{"k":"v"},"choices":[{"message":{"content":"a"}}]}`, bodytext.Response, []string{"text: a"}, nil},
		{"unknown API", `{"model":"m","inputs":{"question":"hi"},"role":"user","n":1}`, bodytext.AnyJSON, []string{"text: hi"}, nil},
		{"names of an unknown API", `{"Some Name":{"snake_case":"a","camelCase":"b"},"id":"not an id","status":"ok"}`, bodytext.AnyJSON,
			[]string{"parameter: Some Name", "text: a", "text: b", "text: not an id"}, nil},
		{"data of an unknown API", `{"image":"data:image/png;base64,` + strings.Repeat("A", 5000) + `","raw":"` + strings.Repeat("A", 5000) + `","list":"` + strings.Repeat("a,", 2500) + `"}`, bodytext.AnyJSON,
			[]string{"text: " + strings.Repeat("a,", 2500)}, []string{"media"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := bodytext.Find([]byte(tt.body), tt.form)
			if !slices.Equal(texts(got), tt.want) {
				t.Errorf("texts = %q, want %q", texts(got), tt.want)
			}
			if !slices.Equal(got.Uncovered, tt.uncovered) {
				t.Errorf("uncovered = %q, want %q", got.Uncovered, tt.uncovered)
			}
		})
	}
}

func TestEventsThatContinueOneTextHaveOneKey(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []string
		want   []string // joined texts by key, in order of the first event
	}{
		{"chat", []string{
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`,
			`{"choices":[{"index":1,"delta":{"content":"x"}},{"index":0,"delta":{"content":"b"}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
		}, []string{"ab", "x", "{}", "hm"}},
		{"messages", []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		}, []string{"ab", "{}", "hm"}},
		{"responses", []string{
			`{"type":"response.created","response":{"instructions":"be","output":[]}}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a","logprobs":[]}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"b"}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":2,"summary_index":0,"delta":"hm"}`,
		}, []string{"ab", "{}", "hm"}},
		{"gemini", []string{
			`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"b"}]}}]}`,
		}, []string{"hm", "ab"}},
		{"converse", []string{
			`{"contentBlockIndex":0,"delta":{"text":"a"}}`, `{"contentBlockIndex":0,"delta":{"text":"b"}}`,
			`{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}`,
			`{"contentBlockIndex":2,"delta":{"reasoningContent":{"text":"hm"}}}`,
		}, []string{"ab", "{}", "hm"}},
		{"unknown API", []string{`{"x":{"piece":"a"},"index":0}`, `{"x":{"piece":"b"},"index":0}`, `{"x":{"piece":"c"},"index":1}`}, []string{"ab", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			form := bodytext.Event
			if tt.name == "unknown API" {
				form = bodytext.AnyEvent
			}
			joined, order := map[string]string{}, []string{}
			for _, e := range tt.events {
				for _, text := range bodytext.Find([]byte(e), form).Texts {
					if _, known := joined[text.Key]; !known {
						order = append(order, text.Key)
					}
					joined[text.Key] += text.Value
				}
			}
			var got []string
			for _, key := range order {
				got = append(got, joined[key])
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("texts = %q, want %q (keys %q)", got, tt.want, order)
			}
		})
	}
}

func TestEventThatRepeatsATextIsMarked(t *testing.T) {
	for _, e := range []string{
		`{"type":"response.output_text.done","text":"ab"}`,
		`{"type":"response.content_part.done","part":{"type":"output_text","text":"ab"}}`,
		`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"ab"}]}}`,
		`{"type":"response.completed","response":{"output":[{"content":[{"type":"output_text","text":"ab"}]}]}}`,
	} {
		got := bodytext.Find([]byte(e), bodytext.Event)
		if len(got.Texts) != 1 || got.Texts[0].Value != "ab" || !got.Texts[0].Repeats {
			t.Errorf("texts of %s = %+v, want one that repeats ab", e, got.Texts)
		}
	}
}

func TestReplacingATextChangesNothingElse(t *testing.T) {
	const body = ` {"n": 1.50, "messages":[ {"role":"user","content":"a \u0041 \"q\""},{"content":[{"type":"text","text":"b"}],"x":1e3}] }`
	found := bodytext.Find([]byte(body), bodytext.Request)
	values := []string{`new "é"`, "b"}
	got := string(found.Replace(nil, values))
	want := strings.Replace(body, `"a \u0041 \"q\""`, `"new \"é\""`, 1)
	if got != want {
		t.Errorf("body = %s, want %s", got, want)
	}
	if same := string(found.Replace(nil, []string{found.Texts[0].Value, "b"})); same != body {
		t.Errorf("unchanged body = %s, want %s", same, body)
	}
	if !json.Valid([]byte(got)) {
		t.Errorf("%s is not JSON", got)
	}
}

func TestLogprobsOfAReplacedTextAreRemoved(t *testing.T) {
	const body = `{"choices":[{"message":{"content":"secret"},"logprobs":{"content":[{"token":"secret"}]}}]}`
	found := bodytext.Find([]byte(body), bodytext.Response)
	if got := string(found.Replace(nil, []string{"***"})); strings.Contains(got, "secret") {
		t.Errorf("%s still holds the text", got)
	}
	const event = `{"type":"response.output_text.delta","delta":"x","logprobs":[{"token":"x"}]}`
	found = bodytext.Find([]byte(event), bodytext.Event)
	got, ok := found.WithoutLogprobs(nil)
	if want := `{"type":"response.output_text.delta","delta":"x","logprobs":[]}`; !ok || string(got) != want {
		t.Errorf("event = %s, want %s", got, want)
	}
}

func TestTextsHaveTheRoleAndNumberOfTheirMessage(t *testing.T) {
	for _, tt := range []struct {
		body string
		form bodytext.Form
		want []string
	}{
		{`{"system":"be","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"text":"b"},{"text":"c"}]}]}`, bodytext.Request,
			[]string{"system -1 be", "user 0 a", "assistant 1 b", "assistant 1 c"}},
		{`{"instructions":"be","input":"a"}`, bodytext.Request, []string{"system -1 be", " -1 a"}},
		{`{"choices":[{"message":{"role":"assistant","content":"a"}},{"message":{"role":"assistant","content":"b"}}]}`, bodytext.Response,
			[]string{"assistant 0 a", "assistant 1 b"}},
	} {
		found := bodytext.Find([]byte(tt.body), tt.form)
		var got []string
		for _, text := range found.Texts {
			got = append(got, fmt.Sprintf("%s %d %s", text.Role, text.Message, text.Value))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("texts of %s = %q, want %q", tt.body, got, tt.want)
		}
	}
}

func FuzzReplace(f *testing.F) {
	f.Add(`{"messages":[{"content":"a"}]}`)
	f.Add(`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[]}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		if !json.Valid([]byte(body)) {
			return
		}
		for form := bodytext.Request; form <= bodytext.AnyEvent; form++ {
			found := bodytext.Find([]byte(body), form)
			values := make([]string, len(found.Texts))
			for i := range values {
				values[i] = "é\n\"x"
			}
			if got := found.Replace(nil, values); !json.Valid(got) {
				t.Fatalf("%q became %q", body, got)
			}
		}
	})
}
