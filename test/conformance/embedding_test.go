package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestEmbeddingsReachProvidersOfOtherProtocols sends two inputs and a dimension,
// and reads two vectors.
func TestEmbeddingsReachProvidersOfOtherProtocols(t *testing.T) {
	g, _ := start(t)
	const input = `"input":["one","two"],"dimensions":256`
	for _, tt := range []struct {
		provider, model, response string
		texts                     [2][]any // where the inputs stand
		dimensions                []any
	}{
		{"google", "gemini-embedding-001", `{"embeddings":[{"values":[0.1,0.2]},{"values":[0.3,0.4]}],"usageMetadata":{"promptTokenCount":2}}`,
			[2][]any{{"requests", 0, "content", "parts", 0, "text"}, {"requests", 1, "content", "parts", 0, "text"}}, []any{"requests", 1, "outputDimensionality"}},
		{"cohere", "embed-v4.0", `{"id":"e","embeddings":{"float":[[0.1,0.2],[0.3,0.4]]},"texts":["one","two"],"meta":{"billed_units":{"input_tokens":2}}}`,
			[2][]any{{"texts", 0}, {"texts", 1}}, []any{"output_dimension"}},
	} {
		p := newProvider(t, says(200, "application/json", tt.response))
		got := g.do(t, "POST", "/v1/embeddings", `{"model":"`+tt.model+`",`+input+`}`, providerFormat{provider: tt.provider}.to(p)...).wantOK(t)
		sent := exactly(t, p.only(t).body)
		prove(t, "S-313", tt.provider+" gets every input", func(t *testing.T) {
			if one, two := at(sent, tt.texts[0]...), at(sent, tt.texts[1]...); one != "one" || two != "two" {
				t.Errorf("inputs %v and %v at the provider: %v", one, two, sent)
			}
		})
		prove(t, "S-319", tt.provider+" gets the dimensions", func(t *testing.T) {
			if n := at(sent, tt.dimensions...); n != json.Number("256") {
				t.Errorf("dimensions %v at the provider: %v", n, sent)
			}
		})
		prove(t, "S-312", tt.provider+" answers with the list", func(t *testing.T) {
			response := got.object(t)
			data, _ := json.Marshal(response["data"])
			if want := `[{"embedding":[0.1,0.2],"index":0,"object":"embedding"},{"embedding":[0.3,0.4],"index":1,"object":"embedding"}]`; string(data) != want || response["object"] != "list" {
				t.Errorf("answer %s, want a list of %s", got.body, want)
			}
		})
		prove(t, "S-150", tt.provider+" gives each vector its index", func(t *testing.T) {
			for i, want := range []string{`{"embedding":[0.1,0.2],"index":0,"object":"embedding"}`, `{"embedding":[0.3,0.4],"index":1,"object":"embedding"}`} {
				if v, _ := json.Marshal(at(got.object(t), "data", i)); string(v) != want {
					t.Errorf("vector %d is %s, want %s", i, v, want)
				}
			}
		})
		prove(t, "S-151", tt.provider+" names the model and counts the tokens", func(t *testing.T) {
			response := got.object(t)
			usage, _ := json.Marshal(response["usage"])
			if want := `{"prompt_tokens":2,"total_tokens":2}`; string(usage) != want || response["model"] != tt.model {
				t.Errorf("usage %s of %v, want %s of %s", usage, response["model"], want, tt.model)
			}
		})
	}
	prove(t, "S-150 S-151", "of a provider that embeds one input at a time", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			n := 1 + strings.Count(string(in.body), "two")
			says(200, "application/json", fmt.Sprintf(`{"embedding":[%d.5],"inputTextTokenCount":%d}`, n, n))(w, r, in)
		})
		got := g.do(t, "POST", "/v1/embeddings", `{"model":"amazon.titan-embed-text-v2:0","input":["one","two"]}`, providerFormat{provider: "bedrock"}.to(p)...).wantOK(t)
		response := got.object(t)
		data, _ := json.Marshal(response["data"])
		usage, _ := json.Marshal(response["usage"])
		if want := `[{"embedding":[1.5],"index":0,"object":"embedding"},{"embedding":[2.5],"index":1,"object":"embedding"}]`; string(data) != want || string(usage) != `{"prompt_tokens":3,"total_tokens":3}` {
			t.Errorf("answer %s, want %s of 3 tokens", got.body, want)
		}
	})
}

// TestImagesOfOtherProtocolsHaveTheForm requests images of providers that report no time.
func TestImagesOfOtherProtocolsHaveTheForm(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct{ provider, model, response, data string }{
		{"google", "imagen-4.0-generate-001", `{"predictions":[{"bytesBase64Encoded":"aGVsbG8="}]}`, `[{"b64_json":"aGVsbG8="}]`},
		{"google", "gemini-2.5-flash-image", `{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"aGVsbG8="}}]}}]}`, `[{"b64_json":"aGVsbG8="}]`},
		{"bedrock", "amazon.nova-canvas-v1:0", `{"images":["aGVsbG8="]}`, `[{"b64_json":"aGVsbG8="}]`},
		{"replicate", "black-forest-labs/flux-schnell", `{"id":"p1","status":"succeeded","output":["https://images.example.com/1"]}`, `[{"url":"https://images.example.com/1"}]`},
	} {
		prove(t, "S-152", tt.model+" of "+tt.provider, func(t *testing.T) {
			p := newProvider(t, says(200, "application/json", tt.response))
			before := time.Now().Unix()
			got := g.do(t, "POST", "/v1/images/generations", `{"model":"`+tt.model+`","prompt":"a cat"}`, providerFormat{provider: tt.provider}.to(p)...).wantOK(t)
			after := time.Now().Unix()
			response := exactly(t, got.body)
			if data, _ := json.Marshal(at(response, "data")); string(data) != tt.data {
				t.Errorf("images %s, want %s", data, tt.data)
			}
			created, _ := at(response, "created").(json.Number)
			if n, err := created.Int64(); err != nil || n < before || n > after {
				t.Errorf("created at %v, want a time between %d and %d", created, before, after)
			}
		})
	}
}
