package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var targets = []dialect.RequestTarget{flash2, flash3, vertex3, oldest, gemma}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"systemInstruction":"s","contents":[{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"mg1.anthropic.redacted.x"},{"thought":true,"text":"t"}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"x"},"parts":[{"fileData":{"fileUri":"gs://a"}}]}}]}]}`))
	f.Add([]byte(`{"contents":{"parts":{"executable_code":{}}},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"$ref":"#/properties/a","anyOf":[{"type":"NULL"}]}}}}]},{"googleSearch":{}}],"generationConfig":{"responseSchema":{"type":"STRING"},"thinkingConfig":{"thinkingBudget":-1}},"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"},"x":1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var doc jsonedit.Doc
		if doc.Scan(body) == nil {
			gemini.Dialect{}.Check(api.Generate, &doc)
		}
		r, err := gemini.Dialect{}.DecodeRequest(body)
		if err != nil {
			return
		}
		first, fates, err := gemini.Dialect{}.EncodeRequest(nil, r, flash2)
		if err == nil {
			if !json.Valid(first) || fates != nil {
				t.Fatalf("EncodeRequest = %s with fates %v", first, fates)
			}
			again, err := gemini.Dialect{}.DecodeRequest(first)
			if err != nil {
				t.Fatalf("what was written can't be read: %v\n%s", err, first)
			}
			second, _, err := gemini.Dialect{}.EncodeRequest(nil, again, flash2)
			if err != nil || string(first) != string(second) {
				t.Fatalf("written twice:\n%s\n%s, %v", first, second, err)
			}
		}
		r.Dialect = "chat"
		for _, to := range targets {
			if body, _, err := (gemini.Dialect{}).EncodeRequest(nil, r, to); err == nil && !json.Valid(body) {
				t.Fatalf("%s: EncodeRequest = %s", to.Model, body)
			}
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(candidate(`{"text":"a"},{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.a[0].b","stringValue":"x","willContinue":true}]}},{"x":1}`, `,"finishReason":"STOP","logprobsResult":{"chosenCandidates":[{"token":"a"}]}`)))
	f.Add([]byte(`[{"error":{"code":1}},{"promptFeedback":{"blockReason":"X"}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		tap := gemini.Dialect{}.NewTap(api.Generate)
		tap.Body(body)
		tap.Info()
		out := gemini.Dialect{}.ProviderError(nil, body, "google", 500)
		if !json.Valid(out) {
			t.Fatalf("ProviderError = %s", out)
		}
		r, err := gemini.Dialect{}.DecodeResponse(body, nil, flash2)
		if err != nil {
			return
		}
		for _, name := range []string{"gemini", "chat"} {
			r.Dialect = name
			if out := (gemini.Dialect{}).EncodeResponse(nil, r, dialect.ResponseTarget{}); !json.Valid(out) {
				t.Fatalf("EncodeResponse = %s", out)
			}
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add(candidate(`{"functionCall":{"name":"f","willContinue":true}}`, "") + "\n" + candidate(`{"functionCall":{"partialArgs":[{"jsonPath":"$.a[0].b","stringValue":"x","willContinue":true}],"willContinue":true}}`, "") +
		"\n" + candidate(`{"text":"a"},{"thought":true,"text":"b","thoughtSignature":"c"}`, `,"finishReason":"STOP"`))
	f.Fuzz(func(t *testing.T, stream string) {
		dec := gemini.Dialect{}.NewDecoder(&llm.Request{Tools: []llm.Tool{{Name: "f", Custom: true}}}, flash2)
		var events []llm.Event
		for line := range strings.Lines(stream) {
			events = dec.Decode(events, sse.Event{Data: []byte(line)})
		}
		events = dec.End(events)
		if why := dialecttest.CheckEventOrder(events); why != "" {
			t.Fatal(why)
		}
		enc := gemini.Dialect{}.NewEncoder(dialect.ResponseTarget{})
		var out []byte
		for i := range events {
			out = enc.Encode(out, &events[i])
		}
		for frame := range strings.SplitSeq(strings.TrimSuffix(string(out), "\r\n\r\n"), "\r\n\r\n") {
			if data := strings.TrimPrefix(frame, "data: "); data != "" && !json.Valid([]byte(data)) {
				t.Fatalf("a frame is %s", frame)
			}
		}
	})
}

func FuzzPartialArguments(f *testing.F) {
	f.Add(`$.a[0].b`, `"x"`, `$.a[1]`, `$['q']`)
	f.Fuzz(func(t *testing.T, a, value, b, c string) {
		if !json.Valid([]byte(value)) {
			return
		}
		var pieces []string
		for _, path := range []string{a, a, b, c, a} {
			quoted, _ := json.Marshal(path)
			pieces = append(pieces, `{"jsonPath":`+string(quoted)+`,"stringValue":`+value+`,"willContinue":true}`, `{"jsonPath":`+string(quoted)+`,"numberValue":`+value+`}`)
		}
		dec := gemini.Dialect{}.NewDecoder(nil, vertex3)
		events := dec.Decode(nil, sse.Event{Data: []byte(candidate(`{"functionCall":{"name":"f","partialArgs":[`+strings.Join(pieces, ",")+`]}}`, ""))})
		var all dialect.Assembler
		for i := range events {
			all.Add(&events[i])
		}
		res, _, _ := all.Response()
		if len(res.Choices) == 0 {
			return // no JSON: the path holds what is not UTF-8
		}
		if args := res.Choices[0].Parts[0].(llm.ToolCall).Arguments; !json.Valid([]byte(args)) {
			t.Fatalf("arguments = %s", args)
		}
	})
}

func FuzzForms(f *testing.F) {
	f.Add([]byte(`{"input":["a",{"image":{"base64":"data:image/png;base64,AAAA"}}],"dimensions":3,"prompt":"p","size":"1x2","quality":"hd"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, op := range []api.Operation{api.Embeddings, api.Images} {
			for _, to := range formTargets {
				form, _ := gemini.Dialect{}.Translator(op, to)
				if out, _, err := form.Request(nil, body, to); err == nil && !json.Valid(out) {
					t.Fatalf("Request = %s", out)
				}
				if out, err := form.Response(nil, body, body, to); err == nil && !json.Valid(out) {
					t.Fatalf("Response = %s", out)
				}
			}
		}
	})
}
