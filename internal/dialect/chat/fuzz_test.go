package chat_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var fuzzTargets = []string{"openai", "mistral-ai", "deepseek", "openrouter", "z-ai", "openai-compatible"}

func FuzzDecodeRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}],"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
		`{"functions":[{"name":"f"}],"function_call":{"name":"f"},"messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"AAAA","filename":"a.pdf"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"document","x":1}]}],"thinking":{"type":"enabled","budget_tokens":1024},"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},"tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"custom","custom":{"name":"c"}},{"type":"web_search"}]}`,
		`{"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"a","signature":"b"},{"type":"reasoning.encrypted","data":"x","format":"openai-responses-v1"}]}]}`,
	} {
		f.Add([]byte(body), uint8(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, target uint8) {
		r, err := chat.Dialect{}.DecodeRequest(body)
		if err != nil {
			return
		}
		for _, from := range []string{"chat", "messages"} {
			r.Dialect = from
			to := dialecttest.TargetOf(fuzzTargets[int(target)%len(fuzzTargets)], "m")
			out, _, err := chat.Dialect{}.EncodeRequest(nil, r, to)
			if err == nil && !json.Valid(out) {
				t.Fatalf("%q became %q, which is not JSON", body, out)
			}
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	for _, body := range []string{
		`{"id":"a","model":"m","choices":[{"index":0,"message":{"content":"hi","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
		`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"x"}],"annotations":[{"type":"url_citation","url_citation":{"url":"u","start_index":1,"end_index":2}}]}}],"citations":["u"]}`,
		`{"choices":[{"message":{"content_blocks":[{"type":"text","text":"a"},{"type":"redacted_thinking","data":"d"}],"audio":{"id":"a","data":"AAAA"},"function_call":{"name":"f","arguments":"{}"}}}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := chat.Dialect{}.DecodeResponse(body, nil, dialect.RequestTarget{})
		if err != nil {
			return
		}
		for _, strict := range []bool{true, false} {
			out := chat.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{Strict: strict})
			if !json.Valid(out) {
				t.Fatalf("%q became %q, which is not JSON", body, out)
			}
		}
	})
}

func FuzzDecodeStream(f *testing.F) {
	for _, stream := range []string{
		"data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}},{\"index\":1,\"id\":\"d\",\"function\":{\"name\":\"g\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content_blocks\":[{\"index\":0,\"delta\":{\"type\":\"thinking\",\"thinking\":\"a\"}}]}}]}\n\ndata: {\"error\":{\"message\":\"x\"}}\n\n",
	} {
		f.Add([]byte(stream))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		frames, _ := dialecttest.ServerSentEvents(bytes.NewReader(stream))
		d := chat.Dialect{}.NewDecoder(nil, dialect.RequestTarget{})
		var events []llm.Event
		for _, frame := range frames {
			events = d.Decode(events, frame)
		}
		events = d.End(events)
		if why := dialecttest.CheckEventOrder(events); why != "" {
			t.Fatalf("%s\n%s", why, stream)
		}
		for _, strict := range []bool{true, false} {
			e := chat.Dialect{}.NewEncoder(dialect.ResponseTarget{Strict: strict})
			var out []byte
			for i := range events {
				out = e.Encode(out, &events[i])
			}
			written, _ := dialecttest.ServerSentEvents(bytes.NewReader(out))
			for _, frame := range written {
				if string(frame.Data) != "[DONE]" && !json.Valid(frame.Data) {
					t.Fatalf("%q became %q, which is not JSON", stream, frame.Data)
				}
			}
		}
	})
}
