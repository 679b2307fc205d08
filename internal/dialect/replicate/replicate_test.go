package replicate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/replicate"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

var (
	llama   = dialect.RequestTarget{Provider: "replicate", Model: "meta/meta-llama-3-8b-instruct"}
	id      = strings.Repeat("0a", 32)
	pinned  = dialect.RequestTarget{Provider: "replicate", Model: "a/b:" + id}
	hello   = []llm.Message{said(llm.User, llm.Text{Text: "hi"})}
	anImage = llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"}
)

func said(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

func withFates(body []byte, fates []dialect.ParamChange, err error) string {
	if err != nil {
		return "refused: " + err.Error()
	}
	var out strings.Builder
	out.WriteString(string(body))
	for _, f := range fates {
		out.WriteString(fmt.Sprintf(" | %s %s %s", f.Name, f.Outcome, f.Note))
	}
	return out.String()
}

func TestPredictionsAreAskedForWithWhatModelsHaveInCommon(t *testing.T) {
	for _, tt := range []struct {
		name string
		to   dialect.RequestTarget
		r    llm.Request
		want string
	}{
		{"words", llama, llm.Request{Messages: hello}, `x{"input":{"prompt":"hi"}}`},
		{"a version", pinned, llm.Request{Messages: hello, Stream: true}, `x{"version":"` + id + `","input":{"prompt":"hi"},"stream":true}`},
		{"turns", llama, llm.Request{Messages: []llm.Message{said(llm.System, llm.Text{Text: "be kind"}), said(llm.User, llm.Text{Text: "a"}), said(llm.Assistant, llm.Thinking{Text: "hm"}, llm.Text{Text: "b"}), said(llm.User, llm.Text{Text: "c"}, anImage)}},
			`x{"input":{"prompt":"User: a\n\nAssistant: b\n\nUser: c\n\nAssistant:","system_prompt":"be kind","image_input":["data:image/png;base64,AAAA"]}} | messages.thinking ignored the target does not read it | content adapted the turns as one prompt`},
		{"sampling", llama, llm.Request{Messages: hello, MaxTokens: new(int64(5)), TopK: new(int64(6)), Seed: new(int64(7)), Temperature: new(0.5), TopP: new(0.6), FrequencyPenalty: new(0.7), PresencePenalty: new(0.8), Stop: []string{"x", "y"}},
			`x{"input":{"prompt":"hi","max_tokens":5,"top_k":6,"seed":7,"temperature":0.5,"top_p":0.6,"frequency_penalty":0.7,"presence_penalty":0.8,"stop_sequences":"x,y"}}`},
		{"what has no place", llama, llm.Request{Messages: hello, Tools: []llm.Tool{{Name: "f"}}, User: "u", Format: llm.Format{Kind: llm.FormatJSON}, Extra: []llm.Member{{Name: "foo", Value: json.RawMessage(`1`)}}},
			`x{"input":{"prompt":"hi"}} | tools dropped  | response_format dropped  | user dropped  | foo dropped `},
		{"a call", llama, llm.Request{Messages: []llm.Message{said(llm.Assistant, llm.ToolCall{At: "here"})}}, `refused: here: provider "replicate" does not support this with model "meta/meta-llama-3-8b-instruct": calls of tools`},
		{"a result", llama, llm.Request{Messages: []llm.Message{said(llm.User, llm.ToolResult{})}}, `refused: messages: provider "replicate" does not support this with model "meta/meta-llama-3-8b-instruct": results of tools`},
		{"sound", llama, llm.Request{Messages: []llm.Message{said(llm.User, llm.Media{Kind: llm.Audio, Data: "AAAA", At: "here"})}}, `refused: here: provider "replicate" does not support this with model "meta/meta-llama-3-8b-instruct": audio other than an image as data or URL`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := withFates(replicate.Dialect{}.EncodeRequest([]byte("x"), &tt.r, tt.to)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestImagesAreAskedForAndTold(t *testing.T) {
	form, ok := replicate.Dialect{}.Translator(api.Images, llama)
	if !ok {
		t.Fatal("no form of images")
	}
	for body, want := range map[string]string{
		`{"model":"m","prompt":"p","n":2,"size":"1792x1024","seed":3,"quality":"hd","response_format":"url"}`: `{"input":{"prompt":"p","num_outputs":2,"aspect_ratio":"16:9","seed":3}} | size adapted aspect_ratio 16:9 | quality dropped `,
		`{"prompt":"p","size":"3x3"}`:                 `{"input":{"prompt":"p"}} | size dropped `,
		`{"prompt":"p","response_format":"b64_json"}`: `refused: response_format: provider "replicate" does not support this with model "meta/meta-llama-3-8b-instruct": images as data; leave it out, and the response has addresses`,
		`{}`: `refused: prompt: must be a string`,
		`[]`: `refused: body: expected a JSON object`,
	} {
		got := withFates(form.Request(nil, []byte(body), llama))
		if got != want && !(body == `[]` && strings.HasPrefix(got, "refused: body: ")) {
			t.Errorf("%s:\ngot  %s\nwant %s", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"output":["https://a.example/1.png","https://a.example/2.png"]}`: `x{"created":0,"data":[{"url":"https://a.example/1.png"},{"url":"https://a.example/2.png"}]}`,
		`{"output":"https://a.example/1.png"}`:                             `x{"created":0,"data":[{"url":"https://a.example/1.png"}]}`,
	} {
		if got, err := form.Response([]byte("x"), []byte(body), nil, llama); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
	if got, err := form.Response(nil, []byte(`{"output":null}`), nil, llama); err == nil {
		t.Errorf("no images gave %s", got)
	}
	if _, ok := (replicate.Dialect{}).Translator(api.Embeddings, llama); ok {
		t.Error("embeddings have a form")
	}
}

func TestAPredictionTellsItsState(t *testing.T) {
	for body, want := range map[string]dialect.Job{
		`{"id":"a/b","status":"starting","urls":{"stream":"https://s"}}`: {Path: "/predictions/a%2Fb", Cancel: "/predictions/a%2Fb/cancel", Stream: "https://s"},
		`{"id":"a","status":"processing"}`:                               {Path: "/predictions/a", Cancel: "/predictions/a/cancel"},
		`{"id":"a","status":"succeeded"}`:                                {Path: "/predictions/a", Cancel: "/predictions/a/cancel", Done: true},
		`{"id":"a","status":"failed","error":"broke"}`:                   {Path: "/predictions/a", Cancel: "/predictions/a/cancel", Done: true, Failed: "failed: broke"},
		`{"id":"a","status":"canceled"}`:                                 {Path: "/predictions/a", Cancel: "/predictions/a/cancel", Done: true, Failed: "canceled"},
	} {
		if got, err := (replicate.Dialect{}).ReadJob([]byte(body)); err != nil || got != want {
			t.Errorf("Job(%s) = %+v, %v, want %+v", body, got, err, want)
		}
	}
	for _, body := range []string{`{}`, `{"id":"a"}`, `{"status":"failed"}`, `[`} {
		if got, err := (replicate.Dialect{}).ReadJob([]byte(body)); err == nil {
			t.Errorf("Job(%s) = %+v, want an error", body, got)
		}
	}
	for model, want := range map[string]string{"a/b": "", id: id, "a/b:" + id: id, "deployments/a/b": "", "a/b:" + id[1:]: ""} {
		if got := replicate.Version(model); got != want {
			t.Errorf("Version(%s) = %s, want %s", model, got, want)
		}
	}
}

func TestResponsesAreTheSameCompleteAndStreamed(t *testing.T) {
	want := &llm.Response{Dialect: "replicate", Model: llama.Model, Usage: llm.Usage{Known: true, Input: 3, Output: 4},
		Choices: []llm.Choice{{Parts: []llm.Part{llm.Text{Text: "Hello {you"}}, Stop: llm.StopEnd, NativeFinishReason: "succeeded"}}}
	const metrics = `"metrics":{"input_token_count":3,"output_token_count":4}`
	for _, output := range []string{`["Hello"," {you"]`, `"Hello {you"`} {
		got, err := replicate.Dialect{}.DecodeResponse([]byte(`{"status":"succeeded","output":`+output+`,`+metrics+`}`), nil, llama)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", output, err, diff)
		}
	}
	event := func(typ, data string) sse.Event { return sse.Event{Type: []byte(typ), Data: []byte(data)} }
	hear := func(events ...sse.Event) (*llm.Response, *llm.ProviderError, bool) {
		var all dialect.Assembler
		var list []llm.Event
		dec := replicate.Dialect{}.NewDecoder(nil, llama)
		for _, e := range events {
			list = dec.Decode(list, e)
		}
		for _, e := range dec.End(list) {
			all.Add(&e)
		}
		return all.Response()
	}
	got, fault, whole := hear(event("output", "Hello"), event("other", "x"), event("output", " {you"), event("done", `{`+metrics+`}`), event("output", "late"))
	want.Dialect = ""
	if diff := cmp.Diff(want, got); diff != "" || fault != nil || !whole {
		t.Errorf("streamed: fault %v, whole %t (-want +got):\n%s", fault, whole, diff)
	}
	for _, tt := range []struct {
		last sse.Event
		want string
	}{{event("error", "out of memory"), "out of memory"}, {event("error", ""), "the prediction failed"}, {event("done", `{"reason":"canceled"}`), "canceled"}} {
		if _, fault, whole := hear(event("output", "a"), tt.last); fault == nil || fault.Message != tt.want || whole {
			t.Errorf("%s: fault %+v, whole %t, want %s", tt.last.Data, fault, whole, tt.want)
		}
	}
	if _, _, whole := hear(event("output", "a")); whole {
		t.Error("a stream without done is complete")
	}
	if _, err := (replicate.Dialect{}).DecodeResponse([]byte(`{`), nil, llama); err == nil {
		t.Error("a broken body was read")
	}
}
