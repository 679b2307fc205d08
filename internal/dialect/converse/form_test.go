package converse_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
)

// asked is what a model family is asked for a request of the chat dialect: the
// body, then the fates, or the refusal alone.
func asked(t *testing.T, op api.Operation, model, body string) string {
	t.Helper()
	to := dialect.RequestTarget{Provider: "bedrock", Model: model}
	form, ok := converse.Dialect{}.Translator(op, to)
	if !ok {
		return "no form"
	}
	out, fates, err := form.Request(nil, []byte(body), to)
	if err != nil {
		return "refused: " + err.Error()
	}
	var text strings.Builder
	text.WriteString(string(out))
	for _, f := range fates {
		text.WriteString(fmt.Sprintf(" | %s %s %s", f.Name, f.Outcome, f.Note))
	}
	return text.String()
}

func TestEmbeddingsAreAskedForInTheFormOfTheFamily(t *testing.T) {
	const (
		v1     = "amazon.titan-embed-text-v1"
		v2     = "amazon.titan-embed-text-v2:0"
		image  = "amazon.titan-embed-image-v1"
		novas  = "amazon.nova-2-multimodal-embeddings-v1:0"
		cohere = "cohere.embed-english-v3"
		v4     = "us.cohere.embed-v4:0"
	)
	for _, tt := range []struct{ name, model, body, want string }{
		{"titan 1", v1, `{"model":"m","input":"a","dimensions":5,"user":"u"}`, `{"inputText":"a"} | dimensions dropped  | user dropped `},
		{"titan 2", v2, `{"input":["a"],"dimensions":256,"encoding_format":"base64","normalize":true}`, `{"inputText":"a","dimensions":256,"normalize":true}`},
		{"titan takes one", v2, `{"input":["a","b"]}`, `refused: input: provider "bedrock" does not support this with model "amazon.titan-embed-text-v2:0": more than one input in a request; send each in a separate request`},
		{"titan takes no tokens", v2, `{"input":[1,2]}`, `refused: input[0]: provider "bedrock" does not support this with model "amazon.titan-embed-text-v2:0": tokens and arrays inside arrays; send strings`},
		{"titan for images", image, `{"input":{"text":"a","image":{"base64":"QUJD"}},"dimensions":384}`, `{"inputText":"a","inputImage":"QUJD","embeddingConfig":{"outputEmbeddingLength":384}}`},
		{"nova", novas, `{"input":"a","dimensions":1024,"input_type":"text_retrieval"}`, `{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{"embeddingPurpose":"TEXT_RETRIEVAL","embeddingDimension":1024,"text":{"truncationMode":"END","value":"a"}}}`},
		{"nova for images", novas, `{"input":{"image":"data:image/jpeg;base64,/9j/"}}`, `{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{"embeddingPurpose":"GENERIC_INDEX","image":{"format":"jpeg","source":{"bytes":"/9j/"}}}}`},
		{"cohere", cohere, `{"input":["a","b"],"truncate":"END","dimensions":5}`, `{"texts":["a","b"],"input_type":"search_document","truncate":"END"} | dimensions dropped `},
		{"cohere 4", v4, `{"input":"a","dimensions":512,"input_type":"search_query"}`, `{"texts":["a"],"input_type":"search_query","output_dimension":512}`},
		{"no input", cohere, `{}`, `refused: input: is required`},
		{"empty input", cohere, `{"input":[]}`, `refused: input: must not be empty`},
		{"words for vectors", cohere, `{"input":"a","encoding_format":"int8"}`, `refused: encoding_format: must be float or base64`},
		{"a model without a form", llama, `{"input":"a"}`, `no form`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := asked(t, api.Embeddings, tt.model, tt.body); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Titan and Nova take one input at a time; what is wrong with one is found before
// any is sent.
func TestManyInputsAreSplitForTheModelsThatTakeOne(t *testing.T) {
	for _, tt := range []struct{ model, body, want string }{
		{"amazon.titan-embed-text-v1", `{"input":["a","b"]}`, `{"input":"a"} {"input":"b"}`},
		{"us.amazon.titan-embed-text-v2:0", `{"input":["a","b"],"dimensions":256}`, `{"input":"a","dimensions":256} {"input":"b","dimensions":256}`},
		{"amazon.titan-embed-image-v1", `{"input":["a",{"image":"QUJD"}]}`, `{"input":"a"} {"input":{"image":"QUJD"}}`},
		{"amazon.nova-2-multimodal-embeddings-v1:0", `{"input":["a","b"]}`, `{"input":"a"} {"input":"b"}`},
		{"amazon.titan-embed-text-v1", `{"input":"a"}`, ``},
		{"amazon.titan-embed-text-v1", `{"input":["a",""]}`, `refused: input[1]: must not be empty`},
		{"amazon.titan-embed-text-v1", `[]`, `refused: body: must be a JSON object`},
		{"cohere.embed-english-v3", `{"input":["a","b"]}`, `takes many`},
	} {
		form, _ := converse.Dialect{}.Translator(api.Embeddings, dialect.RequestTarget{Provider: "bedrock", Model: tt.model})
		got := "takes many"
		if form.Split != nil {
			pieces, err := form.Split([]byte(tt.body), dialect.RequestTarget{Provider: "bedrock", Model: tt.model})
			if got = string(bytes.Join(pieces, []byte(" "))); err != nil {
				got = "refused: " + err.Error()
			}
		}
		if got != tt.want {
			t.Errorf("%s, %s:\ngot  %s\nwant %s", tt.model, tt.body, got, tt.want)
		}
	}
}

func TestDocumentsAreRankedByInvokeModel(t *testing.T) {
	const amazon, cohere = "amazon.rerank-v1:0", "arn:aws:bedrock:us-west-2::foundation-model/cohere.rerank-v3-5:0"
	for _, tt := range []struct{ name, model, body, want string }{
		{"amazon", amazon, `{"model":"m","query":"q","documents":["a",{"text":"b"}],"top_n":1,"max_tokens_per_doc":9,"return_documents":true}`, `{"query":"q","documents":["a","b"],"top_n":1,"api_version":2} | max_tokens_per_doc dropped `},
		{"cohere", cohere, `{"query":"q","documents":[{"t":"x","u":1}],"max_tokens_per_doc":9,"rank_fields":["u","t"]}`, `{"query":"q","documents":["u: 1\nt: x\n"],"max_tokens_per_doc":9,"api_version":2} | rank_fields adapted documents as lines of these fields`},
		{"no query", amazon, `{"documents":["a"]}`, `refused: query: must be a string`},
		{"no documents", amazon, `{"query":"q"}`, `refused: documents: must be a list`},
		{"no document", amazon, `{"query":"q","documents":[1]}`, `refused: documents[0]: must be a string or an object`},
		{"no object", amazon, `[]`, `refused: body: must be a JSON object`},
		{"a model that does not rank", llama, `{"query":"q","documents":["a"]}`, `no form`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := asked(t, api.Rerank, tt.model, tt.body); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestImagesAreAskedForInTheFormOfTheFamily(t *testing.T) {
	const (
		canvas = "amazon.nova-canvas-v1:0"
		paint  = "amazon.titan-image-generator-v2:0"
		xl     = "stability.stable-diffusion-xl-v1"
		sd3    = "stability.sd3-5-large-v1:0"
	)
	for _, tt := range []struct{ name, model, body, want string }{
		{"canvas", canvas, `{"prompt":"a cat","n":2,"size":"1024x512","quality":"hd","style":"vivid","response_format":"url","seed":7}`, `{"taskType":"TEXT_IMAGE","textToImageParams":{"text":"a cat"},"imageGenerationConfig":{"numberOfImages":2,"width":1024,"height":512,"quality":"premium","seed":7}} | style dropped  | quality adapted premium | response_format adapted b64_json`},
		{"titan", paint, `{"prompt":"a cat","size":"auto","negative_prompt":"dogs"}`, `{"taskType":"TEXT_IMAGE","textToImageParams":{"text":"a cat","negativeText":"dogs"},"imageGenerationConfig":{}}`},
		{"diffusion", xl, `{"prompt":"a cat","n":1,"size":"512x512","response_format":"b64_json"}`, `{"text_prompts":[{"text":"a cat","weight":1}],"samples":1,"width":512,"height":512}`},
		{"stable", sd3, `{"prompt":"a cat","n":1,"size":"1792x1024"}`, `{"prompt":"a cat","aspect_ratio":"16:9"} | size adapted aspect ratio 16:9`},
		{"stable makes one", sd3, `{"prompt":"a cat","n":2}`, `refused: n: provider "bedrock" does not support this with model "stability.sd3-5-large-v1:0": more than one image in a request`},
		{"no prompt", sd3, `{}`, `refused: prompt: is required and must not be empty`},
		{"no size", sd3, `{"prompt":"a","size":"big"}`, `refused: size: must be width x height, as in 1024x1024`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := asked(t, api.Images, tt.model, tt.body); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// told is what the client gets of a provider's response.
func told(t *testing.T, op api.Operation, model, body, request string) string {
	t.Helper()
	to := dialect.RequestTarget{Provider: "bedrock", Model: model}
	form, ok := converse.Dialect{}.Translator(op, to)
	if !ok {
		t.Fatalf("no form for %s of %s", op, model)
	}
	out, err := form.Response(nil, []byte(body), []byte(request), to)
	if err != nil {
		return "refused: " + err.Error()
	}
	return string(out)
}

func TestResponsesOfInvokeModelAreForwarded(t *testing.T) {
	const rerank, v2, sd3, xl = "amazon.rerank-v1:0", "amazon.titan-embed-text-v2:0", "stability.sd3-5-large-v1:0", "stability.stable-diffusion-xl-v1"
	for _, tt := range []struct {
		name                 string
		op                   api.Operation
		model, body, request string
		want                 string
	}{
		{"vector", api.Embeddings, v2, `{"embedding":[0.5,-1],"inputTextTokenCount":5}`, `{}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],"model":"amazon.titan-embed-text-v2:0","usage":{"prompt_tokens":5,"total_tokens":5}}`},
		{"packed vector", api.Embeddings, v2, `{"embedding":[0.5,-1]}`, `{"encoding_format":"base64"}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgL8="}],"model":"amazon.titan-embed-text-v2:0","usage":{"prompt_tokens":0,"total_tokens":0}}`},
		{"ranks", api.Rerank, rerank, `{"results":[{"index":1,"relevance_score":0.1},{"index":0,"relevance_score":0.90},{"index":2}]}`, `{"documents":["a",{"text":"b"}],"return_documents":true}`, `{"object":"list","results":[{"index":0,"relevance_score":0.90,"document":{"text":"a"}},{"index":1,"relevance_score":0.1,"document":{"text":"b"}}],"model":"amazon.rerank-v1:0","usage":{},"provider":"bedrock"}`},
		{"the best ranks", api.Rerank, rerank, `{"results":[{"index":1,"relevance_score":0.1},{"index":0,"relevance_score":0.9}]}`, `{"documents":["a","b"],"top_n":1}`, `{"object":"list","results":[{"index":0,"relevance_score":0.9}],"model":"amazon.rerank-v1:0","usage":{},"provider":"bedrock"}`},
		{"no ranks", api.Rerank, rerank, `{}`, `{}`, `refused: converse: the response has no results`},
		{"no vector", api.Embeddings, v2, `{}`, `{}`, `refused: converse: the response has no embeddings`},
		{"images", api.Images, sd3, `{"images":["QUJD"],"finish_reasons":[null]}`, `{}`, `{"created":0,"data":[{"b64_json":"QUJD"}]}`},
		{"artifacts", api.Images, xl, `{"result":"success","artifacts":[{"base64":"QUJD","finishReason":"SUCCESS"}]}`, `{}`, `{"created":0,"data":[{"b64_json":"QUJD"}]}`},
		{"withheld", api.Images, sd3, `{"images":[],"finish_reasons":["Filter reason: prompt"]}`, `{}`, `refused: the provider withheld the images: Filter reason: prompt`},
		{"artifacts withheld", api.Images, xl, `{"artifacts":[{"base64":"QUJD","finishReason":"CONTENT_FILTERED"}]}`, `{}`, `refused: the provider withheld the images: CONTENT_FILTERED`},
		{"nothing", api.Images, sd3, `{}`, `{}`, `refused: converse: the response has no images`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(t, tt.op, tt.model, tt.body, tt.request); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRecordedVectorsAreForwardedUnchanged(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t, "invoke", 25) {
		if !strings.Contains(r.Request.URL, "embed") || r.Response.Status != 200 {
			continue
		}
		n++
		var sent struct {
			Embedding  []float64
			Embeddings json.RawMessage
		}
		if err := json.Unmarshal([]byte(*r.Response.Body), &sent); err != nil {
			t.Fatal(err)
		}
		want := sent.Embedding
		var plain [][]float64
		var byType struct{ Float [][]float64 }
		var objects []struct{ Embedding []float64 }
		switch {
		case want != nil:
		case json.Unmarshal(sent.Embeddings, &plain) == nil:
			want = plain[0]
		case json.Unmarshal(sent.Embeddings, &byType) == nil:
			want = byType.Float[0]
		case json.Unmarshal(sent.Embeddings, &objects) == nil:
			want = objects[0].Embedding
		}
		var got struct{ Data []struct{ Embedding string } }
		if err := json.Unmarshal([]byte(told(t, api.Embeddings, r.model(), *r.Response.Body, `{"encoding_format":"base64"}`)), &got); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(got.Data[0].Embedding)
		if err != nil || len(raw) != 4*len(want) || len(want) < 100 {
			t.Fatalf("%s: %d bytes for %d numbers, %v", r.file, len(raw), len(want), err)
		}
		for i, f := range want {
			if math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])) != float32(f) {
				t.Fatalf("%s: number %d is not %g", r.file, i, f)
			}
		}
	}
	if n < 15 {
		t.Errorf("%d recorded embeddings, want at least 15", n)
	}
}
