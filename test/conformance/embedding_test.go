package conformance

import (
	"encoding/json"
	"testing"
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
		{"google", "gemini-embedding-001", `{"embeddings":[{"values":[0.1,0.2]},{"values":[0.3,0.4]}]}`,
			[2][]any{{"requests", 0, "content", "parts", 0, "text"}, {"requests", 1, "content", "parts", 0, "text"}}, []any{"requests", 1, "outputDimensionality"}},
		{"cohere", "embed-v4.0", `{"id":"e","embeddings":{"float":[[0.1,0.2],[0.3,0.4]]},"texts":["one","two"],"meta":{"billed_units":{"input_tokens":2}}}`,
			[2][]any{{"texts", 0}, {"texts", 1}}, []any{"output_dimension"}},
	} {
		p := newProvider(t, says(200, "application/json", tt.response))
		got := g.do(t, "POST", "/v1/embeddings", `{"model":"`+tt.model+`",`+input+`}`, tongue{provider: tt.provider}.to(p)...).fine(t)
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
	}
}
