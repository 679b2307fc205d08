package cohere_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/cohere"
)

var embedder = dialect.RequestTarget{Provider: "cohere", Model: "embed-v4.0"}

func form(t testing.TB, op api.Operation) dialect.Translator {
	t.Helper()
	f, ok := cohere.Dialect{}.Translator(op, embedder)
	if !ok {
		t.Fatalf("no form for %s", op)
	}
	return f
}

func TestOnlyEmbeddingsAndRerankHaveForms(t *testing.T) {
	if _, ok := (cohere.Dialect{}).Translator(api.Images, embedder); ok {
		t.Error("Form(images) = true, want false")
	}
}

func TestFormsOfRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		op    api.Operation
		body  string
		want  string
		fates []dialect.ParamChange
	}{
		{"one text", api.Embeddings, `{"model":"m","input":"a"}`, `{"model":"embed-v4.0","texts":["a"],"input_type":"search_document","embedding_types":["float"]}`, nil},
		{"texts with all that can be expressed", api.Embeddings, `{"input":["a",{"text":"b"}],"input_type":"search_query","encoding_format":"base64","dimensions":256,"truncate":"END","user":"u","max_tokens":null}`,
			`{"model":"embed-v4.0","texts":["a","b"],"embedding_types":["base64"],"input_type":"search_query","output_dimension":256,"truncate":"END"}`, []dialect.ParamChange{dropped("user")}},
		{"an image", api.Embeddings, `{"input":[{"image":{"base64":"/9j/AAAA"}}]}`, `{"model":"embed-v4.0","images":["data:image/jpeg;base64,/9j/AAAA"],"input_type":"image","embedding_types":["float"]}`, nil},
		{"text and image", api.Embeddings, `{"input":["a",{"image":"data:image/png;base64,AAAA"}]}`,
			`{"model":"embed-v4.0","inputs":[{"content":[{"type":"text","text":"a"}]},{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"input_type":"search_document","embedding_types":["float"]}`, nil},
		{"rerank", api.Rerank, `{"model":"m","query":"q","documents":["a",{"text":"b"},{"c":1}],"top_n":2,"return_documents":true,"max_tokens_per_doc":9,"truncation":true}`,
			`{"model":"embed-v4.0","query":"q","documents":["a","b","{\"c\":1}"],"top_n":2,"max_tokens_per_doc":9}`, []dialect.ParamChange{dropped("truncation")}},
		{"rerank by fields", api.Rerank, `{"query":"q","documents":[{"t":"x","n":1,"z":0}],"rank_fields":["t","n"]}`,
			`{"model":"embed-v4.0","query":"q","documents":["t: x\nn: 1\n"]}`, []dialect.ParamChange{adapted("rank_fields", "documents as lines of these fields")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, fates, err := form(t, tt.op).Request([]byte("x"), []byte(tt.body), embedder)
			if err != nil || string(body) != "x"+tt.want {
				t.Errorf("Request =\n%s, %v, want\nx%s", body, err, tt.want)
			}
			if diff := cmp.Diff(tt.fates, fates); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormsRefuse(t *testing.T) {
	for _, tt := range []struct {
		op          api.Operation
		body, param string
	}{
		{api.Embeddings, `[]`, "body"},
		{api.Embeddings, `{}`, "input"},
		{api.Embeddings, `{"input":[]}`, "input"},
		{api.Embeddings, `{"input":[1,2]}`, "input[0]"},
		{api.Embeddings, `{"input":["a",[1]]}`, "input[1]"},
		{api.Embeddings, `{"input":{"image":{"url":"https://a.example/b.png"}}}`, "input.image"},
		{api.Embeddings, `{"input":{"image":{"base64":"%%%"}}}`, "input.image"},
		{api.Embeddings, `{"input":[null]}`, "input[0]"},
		{api.Rerank, `[]`, "body"},
		{api.Rerank, `{"documents":[]}`, "query"},
		{api.Rerank, `{"query":"q"}`, "documents"},
		{api.Rerank, `{"query":"q","documents":["a",1]}`, "documents[1]"},
	} {
		_, _, err := form(t, tt.op).Request(nil, []byte(tt.body), embedder)
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || e.Param != tt.param {
			t.Errorf("Request of %s: %v, want a refusal of %s", tt.body, err, tt.param)
		}
	}
}

func TestFormsOfResponses(t *testing.T) {
	const usage = `,"model":"embed-v4.0","usage":{"prompt_tokens":4,"total_tokens":4}}`
	for _, tt := range []struct {
		name              string
		op                api.Operation
		asked, body, want string
	}{
		{"floats unchanged", api.Embeddings, `{}`, `{"embeddings":{"float":[[0.10,-1e-3],[2]]},"meta":{"billed_units":{"input_tokens":4}}}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-1e-3]},{"object":"embedding","index":1,"embedding":[2]}]` + usage},
		{"base64", api.Embeddings, `{"encoding_format":"base64"}`, `{"embeddings":{"base64":["AACAPw=="]},"meta":{"tokens":{"input_tokens":4},"billed_units":{"input_tokens":9}}}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPw=="}]` + usage},
		{"floats where base64 was asked for", api.Embeddings, `{"encoding_format":"base64"}`, `{"embeddings":{"float":[[1,-2]]},"meta":{"billed_units":{"input_tokens":1,"image_tokens":3}}}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPwAAAMA="}]` + usage},
		{"the plain list of version 1", api.Embeddings, `{}`, `{"embeddings":[[1]],"meta":{"billed_units":{"input_tokens":4}}}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}]` + usage},
		{"another type", api.Embeddings, `{"embedding_types":["int8"]}`, `{"embeddings":{"float":null,"int8":[[1,-8]]},"meta":{"billed_units":{"input_tokens":4}}}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,-8]}]` + usage},
		{"ranks, the best first, with documents", api.Rerank, `{"documents":["a",{"text":"b"},"c"],"return_documents":true,"top_n":2}`,
			`{"id":"r","results":[{"index":0,"relevance_score":0.1},{"index":1,"relevance_score":0.90},{"index":2,"relevance_score":0.05}],"meta":{"billed_units":{"search_units":1}}}`,
			`{"id":"r","object":"list","results":[{"index":1,"relevance_score":0.90,"document":{"text":"b"}},{"index":0,"relevance_score":0.1,"document":{"text":"a"}}],"model":"embed-v4.0","usage":{"search_units":1},"provider":"cohere"}`},
		{"ranks without documents", api.Rerank, `{"documents":["a"]}`, `{"id":"r","results":[{"index":7,"relevance_score":1}],"meta":{"billed_units":{"search_units":2},"tokens":{"input_tokens":5}}}`,
			`{"id":"r","object":"list","results":[{"index":7,"relevance_score":1}],"model":"embed-v4.0","usage":{"search_units":2,"prompt_tokens":5,"total_tokens":5},"provider":"cohere"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := form(t, tt.op).Response([]byte("x"), []byte(tt.body), []byte(tt.asked), embedder)
			if err != nil || string(got) != "x"+tt.want {
				t.Errorf("Response =\n%s, %v, want\nx%s", got, err, tt.want)
			}
		})
	}
	for _, op := range []api.Operation{api.Embeddings, api.Rerank} {
		for _, body := range []string{``, `{}`, `{"embeddings":{"float":1},"results":{}}`} {
			if got, err := form(t, op).Response(nil, []byte(body), []byte(`{}`), embedder); err == nil {
				t.Errorf("%s: Response(%s) = %s, want an error", op, body, got)
			}
		}
	}
}
