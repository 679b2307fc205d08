package vendorbatch_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/stateplane/vendorbatch"
)

// answers are one completed line at each vendor that has its own format: the route of
// the results, the batch, and a result with the text "Hi".
var answers = map[string]struct {
	model, key string // of the first line
	batch      vendorbatch.Batch
	routes     map[string]string // "%s" is the key
}{
	"anthropic": {"claude-sonnet-4-5", "l0", vendorbatch.Batch{ID: "b", Output: "b"}, map[string]string{
		"GET /messages/batches/b/results": `{"custom_id":"%s","result":{"type":"succeeded","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":2}}}}`,
	}},
	"google": {"gemini-2.5-flash", "l0", vendorbatch.Batch{ID: "b", Output: "files/o"}, map[string]string{
		"GET /download/v1beta/files/o:download?alt=media": `{"key":"%s","response":{"modelVersion":"gemini-2.5-flash","candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9}}}`,
	}},
	"vertex-ai": {"gemini-2.5-flash", "modelgateline1", vendorbatch.Batch{ID: "b", Output: "gs://bkt/dir"}, map[string]string{
		"GET gcs:/storage/v1/b/bkt/o?prefix=dir%%2F":                     `{"items":[{"name":"dir/predictions.jsonl"}]}`,
		"GET gcs:/storage/v1/b/bkt/o/dir%%2Fpredictions.jsonl?alt=media": `{"status":"","request":{"labels":{"modelgate_line":"%s"}},"response":{"modelVersion":"gemini-2.5-flash","candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9}}}`,
	}},
	"bedrock": {"amazon.nova-lite-v1:0", "l0", vendorbatch.Batch{ID: "b", InputFileID: "s3://bkt/in.jsonl", Output: "s3://bkt/out/job/"}, map[string]string{
		"GET s3:/bkt/out/job/in.jsonl.out": `{"recordId":"%s","modelOutput":{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":2,"totalTokens":9}}}`,
	}},
}

// Results have the format of the endpoint that the client chose, at every vendor.
func TestResultsHaveTheFormatOfTheEndpoint(t *testing.T) {
	for endpoint, tt := range map[string]struct{ body, kind string }{
		"/v1/chat/completions": {`{"model":"x","messages":[{"role":"user","content":"hi"}]}`, `"object":"chat.completion"`},
		"/v1/responses":        {`{"model":"x","input":"hi"}`, `"object":"response"`},
		"/v1/messages":         {`{"model":"x","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `"type":"message"`},
	} {
		for id, a := range answers {
			in := inputOf(endpoint, a.model, text(`{"custom_id":"l0","url":"`+endpoint+`","body":`+tt.body+"}\n"))
			routes := map[string]string{}
			for name, body := range a.routes {
				if strings.Contains(body, "%s") {
					body = fmt.Sprintf(body, a.key)
				}
				routes[strings.ReplaceAll(name, "%%", "%")] = body
			}
			b := a.batch
			b.Status = completed
			_, all := mustResults(t, mustVendor(t, id), newFake(t, routes), &b, in)
			if len(all) != 1 || all[0].Failed() {
				t.Errorf("%s, %s: the results are %v", id, endpoint, describeAll(all))
				continue
			}
			if body := string(all[0].Body); !strings.Contains(body, tt.kind) || !strings.Contains(body, "Hi") {
				t.Errorf("%s, %s: the body is %s, want %s", id, endpoint, body, tt.kind)
			}
			if u := all[0].Usage; !u.Known || u.Prompt() != 7 || u.Completion() != 2 {
				t.Errorf("%s, %s: the usage is %+v", id, endpoint, u)
			}
			in.Line = nil // the request is unknown
			if _, all := mustResults(t, mustVendor(t, id), newFake(t, routes), &b, in); len(all) != 1 || all[0].Failed() {
				t.Errorf("%s, %s: without requests the results are %v", id, endpoint, describeAll(all))
			}
		}
	}
}

// A body that the gateway forwards has the usage of its endpoint's format.
func TestUsageOfForwardedBodiesIsRead(t *testing.T) {
	for endpoint, body := range map[string]string{
		chatURL:         `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`,
		"/v1/responses": `{"object":"response","output":[],"usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9}}`,
		embedURL:        `{"object":"list","data":[],"usage":{"prompt_tokens":7,"total_tokens":7}}`,
	} {
		fake := newFake(t, map[string]string{"GET /files/o/content": `{"custom_id":"a0","response":{"status_code":200,"body":` + body + `}}`})
		_, all := mustResults(t, mustVendor(t, "openai"), fake, &vendorbatch.Batch{ID: "b", OutputFileID: "o"}, inputOf(endpoint, "m", chatLines(1)))
		if len(all) != 1 || !all[0].Usage.Known || all[0].Usage.Prompt() != 7 {
			t.Errorf("%s: the results are %+v", endpoint, all)
		}
	}
	u := vendorbatch.Usage{}
	u.Add(knownUsage(7, 3, 2, 1))
	u.Add(knownUsage(1, 0, 1, 0))
	want := vendorbatch.Usage{InputTokens: 11, InputTokensDetails: vendorbatch.InputDetails{CachedTokens: 3}, OutputTokens: 4,
		OutputTokensDetails: vendorbatch.OutputDetails{ReasoningTokens: 1}, TotalTokens: 15}
	if u != want {
		t.Errorf("the sum is %+v, want %+v", u, want)
	}
}

// Names of tools that a vendor does not accept, and encodings of vectors, are those of
// the request again.
func TestResultsAreReadWithTheirRequest(t *testing.T) {
	in := inputOf(chatURL, "gemini-2.5-flash", text(`{"custom_id":"l0","url":"/v1/chat/completions","body":{"model":"x","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"9lives","parameters":{"type":"object"}}}]}}`+"\n"))
	fake := newFake(t, map[string]string{
		"POST /upload/v1beta/files":                                 "^X-Goog-Upload-Url: https://upload.example/u\n{}",
		"POST https://upload.example/u":                             `{"file":{"name":"files/in1"}}`,
		"POST /v1beta/models/gemini-2.5-flash:batchGenerateContent": googleOperation,
	})
	v := mustVendor(t, "google")
	b, err := v.Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(fake.bodies["POST https://upload.example/u"], `"functionDeclarations":[{"name":"`)
	name, _, _ := strings.Cut(after, `"`)
	if !ok || name == "9lives" {
		t.Fatalf("the tool is sent as %q in %s", name, fake.bodies["POST https://upload.example/u"])
	}
	fake.routes["GET /download/v1beta/files/out1:download?alt=media"] = `{"key":"l0","response":{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"` + name + `","args":{}}}]},"finishReason":"STOP"}]}}`
	_, all := mustResults(t, v, fake, b, in)
	if len(all) != 1 || !strings.Contains(string(all[0].Body), `"name":"9lives"`) {
		t.Errorf("the results are %s", all[0].Body)
	}
	in = inputOf(embedURL, "gemini-embedding-001", text(`{"custom_id":"l0","body":{"model":"x","input":"hi","encoding_format":"base64"}}`+"\n"))
	fake.routes["GET /download/v1beta/files/out1:download?alt=media"] = `{"key":"l0","response":{"embedding":{"values":[1]}}}`
	if _, all := mustResults(t, v, fake, b, in); len(all) != 1 || !strings.Contains(string(all[0].Body), `"embedding":"AACAPw=="`) {
		t.Errorf("the vector is %s", all[0].Body)
	}
}
