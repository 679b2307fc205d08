package converse_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/model/llm"
)

func media(kind llm.MediaKind, mime, name string) llm.Part {
	return llm.Media{Kind: kind, Type: mime, Data: "QUJD", Name: name, At: "messages[0].content[1]"}
}

func TestContentIsEncodedInBlocks(t *testing.T) {
	signed := llm.Signature{Vendor: llm.Anthropic, Value: "c2ln"}
	foreign := llm.Signature{Vendor: llm.OpenAI, Value: "b3Bl"}
	for _, tt := range []struct {
		name     string
		model    string
		messages []llm.Message
		want     string // of messages and what follows
	}{
		{
			"images and films", nova, []llm.Message{user(text("See"), media(llm.Image, "image/jpg", ""), media(llm.Video, "video/3gpp", ""))},
			`[{"role":"user","content":[{"text":"See"},{"image":{"format":"jpeg","source":{"bytes":"QUJD"}}},{"video":{"format":"three_gp","source":{"bytes":"QUJD"}}}]}]`,
		},
		{
			"documents have plain names of their own, and words next to them", nova,
			[]llm.Message{user(media(llm.Document, "text/plain; charset=utf-8", "größe_v2.txt"), media(llm.Document, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "größe_v2.txt"), media(llm.Document, "", ""))},
			`[{"role":"user","content":[{"document":{"format":"txt","name":"gr e v2 txt","source":{"bytes":"QUJD"}}},{"document":{"format":"docx","name":"gr e v2 txt (2)","source":{"bytes":"QUJD"}}},{"document":{"format":"pdf","name":"document","source":{"bytes":"QUJD"}}},{"text":"document"}]}]`,
		},
		{
			"files in S3", nova, []llm.Message{user(text("See"), llm.Media{Kind: llm.Image, URL: "s3://bucket/a.PNG", Extra: []llm.Member{{Name: "bucketOwner", Value: []byte(`"123"`)}}})},
			`[{"role":"user","content":[{"text":"See"},{"image":{"format":"png","source":{"s3Location":{"uri":"s3://bucket/a.PNG","bucketOwner":"123"}}}}]}]`,
		},
		{
			"texts as documents", llama, []llm.Message{user(text("See"), llm.Media{Kind: llm.Document, Text: "abc"}, llm.Media{Kind: llm.Document, Parts: []llm.Part{text("a"), text("b")}})},
			`[{"role":"user","content":[{"text":"See"},{"document":{"format":"txt","name":"document","source":{"bytes":"YWJj"}}},{"document":{"format":"txt","name":"document (2)","source":{"bytes":"YWI="}}}]}]`,
		},
		{
			"turns of one role are one", nova, []llm.Message{user(text("a")), user(text(" \n")), user(text("b")), assistant(text("c")), assistant(text("d ")), user(text("e"))},
			`[{"role":"user","content":[{"text":"a"},{"text":"b"}]},{"role":"assistant","content":[{"text":"c"},{"text":"d "}]},{"role":"user","content":[{"text":"e"}]}]`,
		},
		{
			"what the model is to go on with does not end in white space", nova, []llm.Message{user(text("a")), assistant(text("b \n"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"}]}]`,
		},
		{
			"thinking goes to the vendor that signed it", sonnet45,
			[]llm.Message{user(text("a")), assistant(llm.Thinking{Text: "t", Signature: signed}, llm.Thinking{Text: "u", Signature: foreign}, llm.Thinking{Text: "v"}, llm.Thinking{Redacted: true, Signature: signed}, text("b")), user(text("c"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t","signature":"c2ln"}}},{"reasoningContent":{"redactedContent":"c2ln"}},{"text":"b"}]},{"role":"user","content":[{"text":"c"}]}]`,
		},
		{
			"thinking of Claude does not go to others", gptOSS, []llm.Message{user(text("a")), assistant(llm.Thinking{Text: "t", Signature: signed}), user(text("c"))},
			`[{"role":"user","content":[{"text":"a"},{"text":"c"}]}]`,
		},
		{
			"calls whose arguments are not an object, and results that failed", nova,
			[]llm.Message{user(text("a")), assistant(llm.ToolCall{ID: "c1", Name: "f", Arguments: "[1]"}, llm.ToolCall{ID: "c2", Name: "f", Arguments: "{bad"}), user(llm.ToolResult{ID: "c1", Failed: true, Parts: []llm.Part{media(llm.Image, "image/png", "")}}, llm.ToolResult{ID: "c2", Parts: []llm.Part{text("")}})},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"f","input":{"INVALID_JSON":"[1]"}}},{"toolUse":{"toolUseId":"c2","name":"f","input":{"INVALID_JSON":"{bad"}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"image":{"format":"png","source":{"bytes":"QUJD"}}}],"status":"error"}},{"toolResult":{"toolUseId":"c2","content":[]}}]}]`,
		},
		{
			"ids for Mistral", mistral, []llm.Message{user(text("a")), assistant(llm.ToolCall{ID: "call_abcdef", Name: "f"}), user(llm.ToolResult{ID: "call_abcdef"})},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"mo8RV7Xt4","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"mo8RV7Xt4","content":[]}}]}]`,
		},
		{
			"cache points", sonnet45, []llm.Message{{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "s", Cache: &llm.Cache{TTL: "1h"}}}}, user(text("a"), llm.Media{Kind: llm.Document, Type: "application/pdf", Data: "QUJD", Cache: &llm.Cache{}})},
			`[{"role":"user","content":[{"text":"a"},{"document":{"format":"pdf","name":"document","source":{"bytes":"QUJD"}}},{"text":"\n"},{"cachePoint":{"type":"default"}}]}],"system":[{"text":"s"},{"cachePoint":{"type":"default","ttl":"1h"}}]`,
		},
		{
			"words to be guarded", nova, []llm.Message{user(llm.Native{Dialect: "converse", Type: "guard_content", Raw: []byte(`{"type":"guard_content","guard_content":{"text":{"text":"x","qualifiers":["query"]}}}`)})},
			`[{"role":"user","content":[{"guardContent":{"text":{"text":"x","qualifiers":["query"]}}}]}]`,
		},
		{
			"a system prompt alone", nova, []llm.Message{{Role: llm.System, Parts: []llm.Part{text("s")}, At: "messages[0]"}},
			`[{"role":"user","content":[{"text":"s"}]}]`,
		},
		{"an image at an address", nova, []llm.Message{user(llm.Media{Kind: llm.Image, URL: "https://example.com/a.png", At: "messages[0].content[0]"})}, `messages[0].content[0]: provider "bedrock" does not support this with model "amazon.nova-lite-v1:0": it reads no address but s3://; send the content as base64`},
		{"an image of another format", nova, []llm.Message{user(media(llm.Image, "image/tiff", ""))}, `messages[0].content[1]: provider "bedrock" does not support this with model "amazon.nova-lite-v1:0": images of type "image/tiff"; it takes png, jpeg, gif, webp`},
		{"an uploaded file", nova, []llm.Message{user(llm.Media{Kind: llm.Document, FileID: "file-1", At: "messages[0].content[0]"})}, `messages[0].content[0]: provider "bedrock" does not support this with model "amazon.nova-lite-v1:0": it has no uploaded files; send the content as base64`},
		{"sound", nova, []llm.Message{user(media(llm.Audio, "audio/wav", ""))}, `messages[0].content[1]: provider "bedrock" does not support this with model "amazon.nova-lite-v1:0": the model does not accept audio`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := llm.Request{Dialect: "chat", Messages: tt.messages, Tools: []llm.Tool{weather}}
			body, _, err := converse.Dialect{}.EncodeRequest(nil, &r, dialect.RequestTarget{Provider: "bedrock", Model: tt.model})
			got := strings.TrimPrefix(string(body), `{"messages":`)
			got, _, _ = strings.Cut(got, `,"toolConfig"`)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRequestsThatMeanNothingAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"no object", `[]`, "body"},
		{"unknown role", `{"messages":[{"role":"tool","content":[{"text":"a"}]}]}`, "messages[0].role"},
		{"the assistant first", `{"messages":[{"role":"assistant","content":[{"text":"a"}]}]}`, "messages[0].role"},
		{"a result without a call", `{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[]}}]}]}`, "messages[0].content[0].toolResult.toolUseId"},
		{"a call without an id", `{"messages":[{"role":"user","content":[{"toolUse":{"name":"f","input":{}}}]}]}`, "messages[0].content[0].toolUse.toolUseId"},
		{"bad base64", `{"messages":[{"role":"user","content":[{"image":{"format":"png","source":{"bytes":"*"}}}]}]}`, "messages[0].content[0].image.source.bytes"},
		{"unknown format", `{"messages":[{"role":"user","content":[{"image":{"format":"tiff","source":{"bytes":"QUJD"}}}]}]}`, "messages[0].content[0].image.format"},
		{"no source", `{"messages":[{"role":"user","content":[{"image":{"format":"png"}}]}]}`, "messages[0].content[0].image.source"},
		{"a block of nothing", `{"messages":[{"role":"user","content":[{}]}]}`, "messages[0].content[0]"},
		{"text that is none", `{"messages":[{"role":"user","content":[{"text":1}]}]}`, "messages[0].content[0].text"},
		{"a number that is none", `{"messages":[],"inferenceConfig":{"maxTokens":"5"}}`, "inferenceConfig.maxTokens"},
		{"a schema that is none", `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"string"}}}}]}}`, "toolConfig.tools[0].toolSpec.inputSchema.json.type"},
		{"a long name", `{"toolConfig":{"tools":[{"toolSpec":{"name":"` + strings.Repeat("f", 65) + `","inputSchema":{"json":{}}}}]}}`, "toolConfig.tools[0].toolSpec.name"},
		{"a form without a schema", `{"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{"}}}}}`, "outputConfig.textFormat.structure.jsonSchema.schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := converse.Dialect{}.DecodeRequest([]byte(tt.body))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want+": ") {
				t.Errorf("DecodeRequest = %v, want an error at %s", err, tt.want)
			}
		})
	}
}

func TestSignaturesOfOtherVendorsComeThroughTheClient(t *testing.T) {
	response := llm.Response{Choices: []llm.Choice{{Stop: llm.StopTool, Parts: []llm.Part{
		llm.Thinking{Text: "t", Signature: llm.Signature{Vendor: llm.OpenAI, Value: "b3Bl"}},
		llm.Thinking{Redacted: true, Signature: llm.Signature{Vendor: llm.OpenAI, Value: "cmVk"}},
		llm.ToolCall{ID: "c1", Name: "f", Arguments: "{}", Signature: llm.Signature{Vendor: llm.Google, Value: "Z29v"}},
	}}}}
	body := converse.Dialect{}.EncodeResponse(nil, &response, dialect.ResponseTarget{})
	var v struct {
		Output struct{ Message json.RawMessage }
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	r, err := converse.Dialect{}.DecodeRequest([]byte(`{"messages":[{"role":"user","content":[{"text":"a"}]},` + string(v.Output.Message) + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := r.Messages[1].Parts
	if len(got) != 3 {
		t.Fatalf("%d parts in %s, want 3", len(got), body)
	}
	for i, want := range response.Choices[0].Parts {
		part := got[i]
		if call, ok := part.(llm.ToolCall); ok {
			call.At = ""
			if call.Signature != want.(llm.ToolCall).Signature {
				t.Errorf("the call came back with %+v", call.Signature)
			}
		} else if part != want {
			t.Errorf("part %d came back as %+v, want %+v", i, part, want)
		}
	}
}
