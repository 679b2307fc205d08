package gemini_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/gemini"
)

func TestContentsAreEmbeddedInTheChatDialect(t *testing.T) {
	for _, tt := range []struct {
		name       string
		op         api.Operation
		body, want string
	}{
		{"one", api.GenerateEmbed, `{"model":"models/m","content":{"parts":[{"text":"a"},{"text":"b"}]},"task_type":"CLUSTERING","title":"t","outputDimensionality":8}`,
			`x{"model":"sent","input":"ab","dimensions":8,"task_type":"CLUSTERING","title":"t"}`},
		{"with a config", api.GenerateEmbed, `{"content":{"parts":[{"text":"a"}]},"embedContentConfig":{"outputDimensionality":8}}`, `x{"model":"sent","input":"a","dimensions":8}`},
		{"a batch", api.GenerateEmbedBatch, `{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"outputDimensionality":8},{"content":{"parts":[{"text":"b"}]},"outputDimensionality":8}]}`,
			`x{"model":"sent","input":["a","b"],"dimensions":8}`},
		{"no content", api.GenerateEmbed, `{}`, `content: must be a content with parts`},
		{"no parts", api.GenerateEmbed, `{"content":{"parts":[]}}`, `content.parts: must contain the text`},
		{"an image", api.GenerateEmbed, `{"content":{"parts":[{"text":"a"},{"inlineData":{}}]}}`, `content.parts[1]: only text is embedded by the providers of other protocols`},
		{"no object", api.GenerateEmbed, `[]`, `body: must be a JSON object`},
		{"no requests", api.GenerateEmbedBatch, `{"requests":[]}`, `requests: must contain at least one request`},
		{"no object of a batch", api.GenerateEmbedBatch, `[]`, `body: must be a JSON object`},
		{"a batch without a content", api.GenerateEmbedBatch, `{"requests":[{"content":{"parts":[{"text":"a"}]}},{}]}`, `requests[1].content: must be a content with parts`},
		{"a batch that wants this and that", api.GenerateEmbedBatch, `{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"a"}]},"taskType":"CLUSTERING"}]}`,
			`requests[1]: must ask for the same taskType, title and outputDimensionality as requests[0]: the provider accepts one value per batch`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			form, ok := gemini.Dialect{}.ClientTranslator(tt.op)
			if !ok || form.Operation != api.Embeddings {
				t.Fatalf("ClientTranslator(%s) = %v, %t", tt.op, form.Operation, ok)
			}
			body, err := form.Request([]byte("x"), []byte(tt.body), "sent")
			got := string(body)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if _, ok := (gemini.Dialect{}).ClientTranslator(api.Generate); ok {
		t.Error("conversations have a form, want none")
	}
}

func TestVectorsOfTheChatDialectAreThoseOfContents(t *testing.T) {
	const response = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[ 1, 0.5]},{"index":1,"embedding":[2]}],"usage":{"prompt_tokens":3}}`
	for op, want := range map[api.Operation]string{
		api.GenerateEmbed:      `x{"embedding":{"values":[ 1, 0.5]},"usageMetadata":{"promptTokenCount":3}}`,
		api.GenerateEmbedBatch: `x{"embeddings":[{"values":[ 1, 0.5]},{"values":[2]}],"usageMetadata":{"promptTokenCount":3}}`,
	} {
		form, _ := gemini.Dialect{}.ClientTranslator(op)
		if got, err := form.Response([]byte("x"), []byte(response)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", op, got, err, want)
		}
		for _, bad := range []string{`{`, `{}`, `{"data":[]}`, `{"data":[{"embedding":"AAAA"}]}`} {
			if got, err := form.Response(nil, []byte(bad)); err == nil {
				t.Errorf("%s: %s gave %s", op, bad, got)
			}
		}
	}
}
