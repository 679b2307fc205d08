package gemini_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/testing/dialecttest"
)

var (
	embedding1  = dialecttest.TargetOf("google", "gemini-embedding-001")
	vertexText  = dialecttest.TargetOf("vertex-ai", "text-embedding-005")
	vertexNew   = dialecttest.TargetOf("vertex-ai", "gemini-embedding-2")
	imagen      = dialecttest.TargetOf("vertex-ai", "imagen-4.0-generate-001")
	nano        = dialecttest.TargetOf("google", "gemini-2.5-flash-image")
	formTargets = []dialect.RequestTarget{embedding1, vertexText, vertexNew, imagen, nano}
)

func mustForm(t *testing.T, op api.Operation, to dialect.RequestTarget) dialect.Translator {
	t.Helper()
	form, ok := gemini.Dialect{}.Translator(op, to)
	if !ok {
		t.Fatalf("no form of %s for %s", op, to.Model)
	}
	return form
}

func TestOtherOperationsHaveNoForm(t *testing.T) {
	if _, ok := (gemini.Dialect{}).Translator(api.Rerank, embedding1); ok {
		t.Error("Form(rerank) = true, want false")
	}
}

func TestFormsOfRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		op    api.Operation
		to    dialect.RequestTarget
		body  string
		want  string
		fates []dialect.ParamChange
	}{
		{"each input is a content", api.Embeddings, embedding1, `{"model":"m","input":["a","b"],"dimensions":256,"task_type":"RETRIEVAL_QUERY","encoding_format":"base64","user":"u"}`,
			`{"requests":[{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":256},{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"b"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":256}]}`,
			[]dialect.ParamChange{dropped("user")}},
		{"an input of several media", api.Embeddings, embedding1, `{"input":{"text":"a","image":{"url":"data:image/png;base64,AAAA"},"audio":{"url":"gs://b/c.wav"}}}`,
			`{"requests":[{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"fileData":{"mimeType":"audio/wav","fileUri":"gs://b/c.wav"}}]}}]}`, nil},
		{"instances", api.Embeddings, vertexText, `{"input":"a","dimensions":8,"task_type":"CLUSTERING","parameters":{"auto_truncate":false},"labels":{"a":"b"}}`,
			`{"instances":[{"content":"a","task_type":"CLUSTERING"}],"parameters":{"autoTruncate":false,"outputDimensionality":8},"labels":{"a":"b"}}`, nil},
		{"instances of several media", api.Embeddings, vertexText, `{"input":[{"text":"a","image":{"base64":"AAAA"},"video":{"url":"gs://a/b","start_offset":1,"end_offset":2,"interval":3}}],"dimensions":128}`,
			`{"instances":[{"text":"a","image":{"bytesBase64Encoded":"AAAA","mimeType":"image/jpeg"},"video":{"gcsUri":"gs://a/b","videoSegmentConfig":{"startOffsetSec":1,"endOffsetSec":2,"intervalSec":3}}}],"parameters":{"dimension":128}}`, nil},
		{"one content", api.Embeddings, vertexNew, `{"input":["a"],"dimensions":8}`, `{"content":{"parts":[{"text":"a"}]},"embedContentConfig":{"outputDimensionality":8}}`, nil},
		{"imagen", api.Images, imagen, `{"prompt":["p"],"n":20,"size":"1792x1024","quality":"hd","style":"photo","add_watermark":false,"response_format":"url","user":"u"}`,
			`{"instances":[{"prompt":"p"}],"parameters":{"sampleCount":8,"aspectRatio":"16:9","sampleImageStyle":"photo","addWatermark":false,"outputOptions":{"mimeType":"image/jpeg","compressionQuality":100}}}`,
			[]dialect.ParamChange{adapted("n", "8"), adapted("size", "aspectRatio 16:9"), adapted("quality", "compressionQuality 100"), dropped("user"), adapted("response_format", "b64_json")}},
		{"a model that speaks too", api.Images, nano, `{"prompt":"p","size":"1024x1024","n":2}`,
			`{"contents":[{"role":"user","parts":[{"text":"p"}]}],"generationConfig":{"responseModalities":["TEXT","IMAGE"],"imageConfig":{"aspectRatio":"1:1"}}}`,
			[]dialect.ParamChange{dropped("n"), adapted("size", "aspectRatio 1:1")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, fates, err := mustForm(t, tt.op, tt.to).Request([]byte("x"), []byte(tt.body), tt.to)
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
		to          dialect.RequestTarget
		body, param string
	}{
		{api.Embeddings, embedding1, `[]`, "body"},
		{api.Embeddings, embedding1, `{}`, "input"},
		{api.Embeddings, embedding1, `{"input":[]}`, "input"},
		{api.Embeddings, embedding1, `{"input":[1,2]}`, "input[0]"},
		{api.Embeddings, embedding1, `{"input":[{}]}`, "input[0]"},
		{api.Embeddings, embedding1, `{"input":[{"image":{}}]}`, "input[0].image"},
		{api.Embeddings, vertexNew, `{"input":["a","b"]}`, "input"},
		{api.Embeddings, vertexText, `{"input":[{"image":{"url":"https://a.example/b.png"}}]}`, "input[0].image"},
		{api.Images, imagen, `{}`, "prompt"},
		{api.Images, nano, `{"prompt":[1]}`, "prompt[0]"},
	} {
		_, _, err := mustForm(t, tt.op, tt.to).Request(nil, []byte(tt.body), tt.to)
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || e.Param != tt.param {
			t.Errorf("Request of %s: %v, want a refusal of %s", tt.body, err, tt.param)
		}
	}
}

func TestFormsOfResponses(t *testing.T) {
	for _, tt := range []struct {
		name        string
		op          api.Operation
		to          dialect.RequestTarget
		asked, body string
		want        string
	}{
		{"of a batch", api.Embeddings, embedding1, `{}`, `{"embeddings":[{"values":[ 1, -0.5]},{"values":[2]}],"usageMetadata":{"promptTokenCount":3}}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,-0.5]},{"object":"embedding","index":1,"embedding":[2]}],"model":"gemini-embedding-001","usage":{"prompt_tokens":3,"total_tokens":3}}`},
		{"as base64", api.Embeddings, embedding1, `{"encoding_format":"base64"}`, `{"embeddings":[{"values":[1,-2]}]}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPwAAAMA="}],"model":"gemini-embedding-001","usage":{"prompt_tokens":0,"total_tokens":0}}`},
		{"of several media", api.Embeddings, vertexText, `{}`, `{"predictions":[{"textEmbedding":[1],"imageEmbedding":[2],"videoEmbeddings":[{"embedding":[3]}]}]}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]},{"object":"embedding","index":1,"image_embedding":[2]},{"object":"embedding","index":2,"video_embedding":[3]}],"model":"text-embedding-005","usage":{"prompt_tokens":0,"total_tokens":0}}`},
		{"of imagen", api.Images, imagen, `{}`, `{"predictions":[{"bytesBase64Encoded":"AAAA"},{"raiFilteredReason":"x"},{"bytesBase64Encoded":"BBBB"}]}`,
			`{"created":0,"data":[{"b64_json":"AAAA"},{"b64_json":"BBBB"}]}`},
		{"of a model that speaks too", api.Images, nano, `{}`, `{"candidates":[{"content":{"parts":[{"text":"here"},{"inlineData":{"data":"TTTT"},"thought":true},{"inlineData":{"data":"AAAA"}}]}}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4}}`,
			`{"created":0,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mustForm(t, tt.op, tt.to).Response([]byte("x"), []byte(tt.body), []byte(tt.asked), tt.to)
			if err != nil || string(got) != "x"+tt.want {
				t.Errorf("Response =\n%s, %v, want\nx%s", got, err, tt.want)
			}
		})
	}
	filtered, err := mustForm(t, api.Images, imagen).Response(nil, []byte(`{"predictions":[{"raiFilteredReason":"violence"}]}`), nil, imagen)
	if e, ok := errors.AsType[*apierr.Error](err); !ok || !strings.Contains(e.Message, "violence") {
		t.Errorf("of a refused prompt: %s, %v, want a refusal that says why", filtered, err)
	}
}

func TestRecordedVectorsAreTheSame(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t, "embed-content", "predict") {
		if r.Response.Status != 200 {
			continue
		}
		n++
		to := r.target()
		form := mustForm(t, api.Embeddings, to)
		inputs, want := recordedVectors(t, &r)
		request, _ := json.Marshal(map[string]any{"model": to.Model, "input": inputs, "task_type": nil})
		sent, fates, err := form.Request(nil, request, to)
		if err != nil || fates != nil {
			t.Fatalf("%s: %v, fates %v", r.file, err, fates)
		}
		if diff := cmp.Diff(withoutTask(mustJSON(t, string(r.Request.Body))), withoutTask(mustJSON(t, string(sent)))); diff != "" {
			t.Errorf("%s: the request (-want +got):\n%s", r.file, diff)
		}
		for _, format := range []string{"float", "base64"} {
			response, err := form.Response(nil, []byte(r.Response.Body), []byte(`{"encoding_format":"`+format+`"}`), to)
			if err != nil {
				t.Fatalf("%s: %v", r.file, err)
			}
			var got [][]float32
			for _, d := range list(object(mustJSON(t, string(response)))["data"]) {
				got = append(got, floats(t, object(d)["embedding"]))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%.500s", r.file, format, diff)
			}
		}
	}
	if n < 8 {
		t.Errorf("%d answers recorded, want at least 8", n)
	}
}

// recordedVectors returns the inputs and the vectors of an exchange, in
// whichever form it is.
func recordedVectors(t *testing.T, r *recorded) (inputs []string, vectors [][]float32) {
	t.Helper()
	request, response := object(mustJSON(t, string(r.Request.Body))), object(mustJSON(t, r.Response.Body))
	content := func(v any) string { return text(object(list(object(object(v)["content"])["parts"])[0])["text"]) }
	switch {
	case request["requests"] != nil:
		for i, e := range list(request["requests"]) {
			inputs = append(inputs, content(e))
			vectors = append(vectors, floats(t, object(list(response["embeddings"])[i])["values"]))
		}
	case request["instances"] != nil:
		for i, e := range list(request["instances"]) {
			inputs = append(inputs, text(object(e)["content"]))
			vectors = append(vectors, floats(t, object(object(list(response["predictions"])[i])["embeddings"])["values"]))
		}
	default:
		inputs, vectors = []string{content(request)}, [][]float32{floats(t, object(response["embedding"])["values"])}
	}
	return inputs, vectors
}

// withoutTask leaves out what the test does not ask for.
func withoutTask(v any) any {
	for _, name := range []string{"requests", "instances"} {
		for _, e := range list(object(v)[name]) {
			delete(object(e), "taskType")
			delete(object(e), "task_type")
		}
	}
	for _, name := range []string{"parameters", "embedContentConfig"} {
		if m, ok := object(v)[name].(map[string]any); ok && len(m) == 0 {
			delete(object(v), name)
		}
	}
	return v
}

func floats(t *testing.T, v any) (list []float32) {
	t.Helper()
	if packed, ok := v.(string); ok {
		b, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(b) > 0; b = b[4:] {
			list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		return list
	}
	for _, f := range v.([]any) {
		list = append(list, float32(f.(float64)))
	}
	return list
}
