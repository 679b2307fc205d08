package gemini

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// The parameters of embeddings that are translated.
var embeddingParams = []string{"input", "dimensions", "encoding_format", "task_type", "title"}

// inputs calls f with each input: a string, or an object of several media.
func (a *operationRequest) inputs(to dialect.RequestTarget, f func(jsonedit.Value, string) error) (n int, err error) {
	v, ok := a.get("input")
	if !ok {
		return 0, dialect.Invalid("input", dialect.CodeMissing, "is required: send a string or an array of strings")
	}
	each(v, "input", func(v jsonedit.Value, path string) {
		switch n++; {
		case err != nil:
		case v.Kind() == jsonedit.String || v.Kind() == jsonedit.Object:
			err = f(v, path)
		default:
			err = unsupported(path, to, "an input that is not text, such as tokens")
		}
	})
	if err == nil && n == 0 {
		err = dialect.Invalid("input", dialect.CodeValue, "must contain at least one input")
	}
	return n, err
}

// batchRequest writes a request for :batchEmbedContents: one content for each
// input.
// https://ai.google.dev/api/embeddings#method:-models.batchembedcontents
func batchRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("requests")
	b.Open('[')
	_, err = a.inputs(to, func(v jsonedit.Value, path string) error {
		b.Open('{')
		text(&b, "model", collected(to.Model))
		if err := appendInput(&b, v, path, to); err != nil {
			return err
		}
		a.embedding(&b)
		b.Close('}')
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	b.Close(']')
	b.Close('}')
	a.drop(embeddingParams...)
	return b.Bytes(), a.changes, nil
}

// collected returns a model's name with the collection, as bodies require it.
func collected(model string) string { return "models/" + strings.TrimPrefix(model, "models/") }

// splitInputs splits a request to a model that accepts one input at a time. All
// inputs are checked first, so that none is sent if one of them is invalid.
func splitInputs(body []byte, to dialect.RequestTarget) ([][]byte, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, err
	}
	if _, err := a.inputs(to, func(jsonedit.Value, string) error { return nil }); err != nil {
		return nil, err
	}
	return dialect.SplitInput(body), nil
}

// embedding writes the settings of a vector.
func (a *operationRequest) embedding(b *jsonedit.Builder) {
	a.copy(b, "task_type", "taskType")
	a.copy(b, "title", "title")
	a.copy(b, "dimensions", "outputDimensionality")
}

// appendInput writes an input as a content.
func appendInput(b *jsonedit.Builder, v jsonedit.Value, path string, to dialect.RequestTarget) error {
	b.Name("content")
	b.Open('{')
	b.Name("parts")
	b.Open('[')
	if words, ok := v.Text(); ok {
		b.Open('{')
		text(b, "text", words)
		b.Close('}')
	} else if err := appendInputParts(b, v, path, to); err != nil {
		return err
	}
	b.Close(']')
	b.Close('}')
	return nil
}

// appendInputParts writes the media of an input, which together make one
// vector.
func appendInputParts(b *jsonedit.Builder, v jsonedit.Value, path string, to dialect.RequestTarget) error {
	n := 0
	for key, inner := range v.Fields() {
		name := key.String()
		switch {
		case inner.IsNull():
			continue
		case name == "text" && inner.Kind() == jsonedit.String:
			b.Open('{')
			b.Name("text")
			b.Raw(inner.Raw())
			b.Close('}')
		case name == "image" || name == "video" || name == "audio":
			mime, data, address := sourceOf(inner, name)
			if data == "" && address == "" {
				return dialect.Invalid(path+"."+name, dialect.CodeValue, "must have url or base64")
			}
			appendSourcePart(b, mime, data, address)
		default:
			return unsupported(path+"."+name, to, "an input of this form")
		}
		n++
	}
	if n == 0 {
		return dialect.Invalid(path, dialect.CodeValue, "must have text, image, audio or video")
	}
	return nil
}

func appendSourcePart(b *jsonedit.Builder, mime, data, address string) {
	b.Open('{')
	kind, name, value := "inlineData", "data", data
	if data == "" {
		kind, name, value = "fileData", "fileUri", address
	}
	b.Name(kind)
	b.Open('{')
	text(b, "mimeType", mime)
	text(b, name, value)
	b.Close('}')
	b.Close('}')
}

// usualTypes are the MIME types of media without one.
var usualTypes = map[string]string{"image": "image/jpeg", "video": "video/mp4", "audio": "audio/mp3"}

// sourceOf reads {url} or {base64}, either of which may be a data: URL, or such
// a string by itself.
func sourceOf(v jsonedit.Value, kind string) (mime, data, address string) {
	address, _ = v.Text()
	for key, v := range v.Fields() {
		switch camel(key) {
		case "url":
			address, _ = v.Text()
		case "base64":
			data, _ = v.Text()
		case "mimeType":
			mime, _ = v.Text()
		}
	}
	for _, s := range [...]string{address, data} {
		if typ, inner, ok := dialect.ParseDataURL(s); ok {
			return typ, dialect.StandardBase64(inner), ""
		}
	}
	if mime == "" && data == "" {
		mime = dialect.TypeByName(address)
	}
	if mime == "" {
		mime = usualTypes[kind]
	}
	return mime, dialect.StandardBase64(data), address
}

// batchVectors reads {embeddings:[{values}]}.
func batchVectors(v jsonedit.Value) (list []vector, tokens int64) {
	all, _ := v.Get("embeddings")
	for e := range all.Elements() {
		values, _ := e.Get("values")
		list = append(list, vector{values: values})
	}
	return list, promptTokens(v)
}

func promptTokens(v jsonedit.Value) int64 {
	usage, _ := v.Get("usageMetadata")
	return new(dialect.Counter).ReadMember(usage, "promptTokenCount")
}

// contentRequest writes a request for :embedContent, which accepts one input.
// https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-multimodal-embeddings
func contentRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	n, err := a.inputs(to, func(v jsonedit.Value, path string) error {
		return appendInput(&b, v, path, to)
	})
	if err == nil && n > 1 {
		err = unsupported("input", to, "more than one input at a time")
	}
	if err != nil {
		return nil, nil, err
	}
	b.Name("embedContentConfig")
	b.Open('{')
	a.embedding(&b)
	a.copy(&b, "auto_truncate", "autoTruncate")
	b.Close('}')
	a.copy(&b, "labels", "labels")
	b.Close('}')
	a.drop(append(embeddingParams[:len(embeddingParams):len(embeddingParams)], "auto_truncate", "labels")...)
	return b.Bytes(), a.changes, nil
}

// contentVector reads {embedding:{values}}.
func contentVector(v jsonedit.Value) ([]vector, int64) {
	e, _ := v.Get("embedding")
	values, ok := e.Get("values")
	if !ok {
		return nil, 0
	}
	return []vector{{values: values}}, promptTokens(v)
}

// predictRequest writes a request for :predict: one instance for each input.
// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
func predictRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("instances")
	b.Open('[')
	media := false
	_, err = a.inputs(to, func(v jsonedit.Value, path string) error {
		b.Open('{')
		defer b.Close('}')
		if words, ok := v.Text(); ok {
			text(&b, "content", words)
			a.copy(&b, "task_type", "task_type")
			a.copy(&b, "title", "title")
			return nil
		}
		media = true
		return appendInstance(&b, v, path, to)
	})
	if err != nil {
		return nil, nil, err
	}
	b.Close(']')
	a.parameters(&b, media)
	a.copy(&b, "labels", "labels")
	b.Close('}')
	a.drop(append(embeddingParams[:len(embeddingParams):len(embeddingParams)], "parameters", "auto_truncate", "labels")...)
	return b.Bytes(), a.changes, nil
}

// parameters writes the settings of all vectors.
func (a *operationRequest) parameters(b *jsonedit.Builder, media bool) {
	b.Name("parameters")
	b.Open('{')
	given, _ := a.get("parameters")
	for key, v := range given.Fields() {
		b.Key(camel(key))
		b.Raw(v.Raw())
	}
	name := "outputDimensionality"
	if media {
		name = "dimension"
	}
	if field(given, name).IsNull() {
		a.copy(b, "dimensions", name)
	}
	if field(given, "autoTruncate").IsNull() {
		a.copy(b, "auto_truncate", "autoTruncate")
	}
	b.Close('}')
}

// appendInstance writes the media of one input.
// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/multimodal-embeddings-api
func appendInstance(b *jsonedit.Builder, v jsonedit.Value, path string, to dialect.RequestTarget) error {
	for key, inner := range v.Fields() {
		name := key.String()
		switch {
		case inner.IsNull():
		case name == "text" && inner.Kind() == jsonedit.String:
			b.Name("text")
			b.Raw(inner.Raw())
		case name == "image" || name == "video":
			mime, data, address := sourceOf(inner, name)
			if data == "" && !strings.HasPrefix(address, "gs://") {
				return unsupported(path+"."+name, to, "an %s that is neither data nor a gs:// address", name)
			}
			b.Name(name)
			b.Open('{')
			if data != "" {
				text(b, "bytesBase64Encoded", data)
			} else {
				text(b, "gcsUri", address)
			}
			if name == "image" {
				text(b, "mimeType", mime)
			} else {
				appendSegment(b, inner)
			}
			b.Close('}')
		default:
			return unsupported(path+"."+name, to, "an input of this form")
		}
	}
	return nil
}

// appendSegment writes the segment of a video to embed.
func appendSegment(b *jsonedit.Builder, v jsonedit.Value) {
	names := [...][2]string{{"startOffset", "startOffsetSec"}, {"endOffset", "endOffsetSec"}, {"interval", "intervalSec"}}
	opened := false
	for _, name := range names {
		inner := field(v, name[0])
		if inner.IsNull() {
			continue
		}
		if !opened {
			b.Name("videoSegmentConfig")
			b.Open('{')
			opened = true
		}
		b.Name(name[1])
		b.Raw(inner.Raw())
	}
	if opened {
		b.Close('}')
	}
}

// predictVectors reads predictions: vectors of text, or of each medium
// separately. Zero tokens are unknown.
func predictVectors(v jsonedit.Value) (list []vector, tokens int64) {
	var count dialect.Counter
	all, _ := v.Get("predictions")
	for p := range all.Elements() {
		if e, ok := p.Get("embeddings"); ok {
			values, _ := e.Get("values")
			list = append(list, vector{values: values})
			statistics, _ := e.Get("statistics")
			tokens += count.ReadMember(statistics, "token_count") // 4 or 4.0
			continue
		}
		for _, kind := range [...][2]string{{"textEmbedding", ""}, {"imageEmbedding", "image_embedding"}} {
			if values, ok := p.Get(kind[0]); ok {
				list = append(list, vector{values: values, name: kind[1]})
			}
		}
		films, _ := p.Get("videoEmbeddings")
		for film := range films.Elements() {
			values, _ := film.Get("embedding")
			list = append(list, vector{values: values, name: "video_embedding"})
		}
	}
	if count.Invalid {
		tokens = 0
	}
	return list, tokens
}
