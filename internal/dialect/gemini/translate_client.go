package gemini

import (
	"bytes"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// ClientTranslator returns the translator of embedContent and
// batchEmbedContents to the embeddings of the chat dialect.
// https://ai.google.dev/api/embeddings
func (Dialect) ClientTranslator(op api.Operation) (dialect.ClientTranslator, bool) {
	form := dialect.ClientTranslator{
		Operation:   api.Embeddings,
		Names:       map[string]string{"input": "content", "dimensions": "outputDimensionality", "task_type": "taskType"},
		ExtraFields: []string{"task_type", "title"},
	}
	switch op {
	case api.GenerateEmbed:
		form.Request, form.Response = embedRequest, appendEmbedding
	case api.GenerateEmbedBatch:
		form.Request, form.Response = embedBatchRequest, appendEmbeddings
		form.Names["input"] = "requests"
	default:
		return dialect.ClientTranslator{}, false
	}
	return form, true
}

// embedOptions holds the settings of a request's vectors: members of the chat
// dialect's body, as raw JSON.
type embedOptions struct{ dimensions, task, title []byte }

func (w *embedOptions) equal(o *embedOptions) bool {
	return bytes.Equal(w.dimensions, o.dimensions) && bytes.Equal(w.task, o.task) && bytes.Equal(w.title, o.title)
}

func (w *embedOptions) append(b *jsonedit.Builder) {
	for _, m := range [...]struct {
		name  string
		value []byte
	}{{"dimensions", w.dimensions}, {"task_type", w.task}, {"title", w.title}} {
		if m.value != nil {
			b.Name(m.name)
			b.Raw(m.value)
		}
	}
}

// embedded reads the text of one content to embed and the settings of its
// vector.
func embedded(v jsonedit.Value, path string) (words string, want embedOptions, err error) {
	config := field(v, "embedContentConfig")
	if config.IsNull() {
		config = v
	}
	for _, m := range [...]struct {
		name string
		to   *[]byte
	}{{"outputDimensionality", &want.dimensions}, {"taskType", &want.task}, {"title", &want.title}} {
		if inner := field(config, m.name); !inner.IsNull() {
			*m.to = inner.Raw()
		}
	}
	content := field(v, "content")
	if content.Kind() != jsonedit.Object {
		return "", want, dialect.Invalid(path+"content", dialect.CodeMissing, "must be a content with parts")
	}
	n := 0
	each(field(content, "parts"), path+"content.parts", func(p jsonedit.Value, path string) {
		said, ok := field(p, "text").Text()
		if n++; !ok && err == nil {
			err = dialect.Invalid(path, dialect.CodeUnsupported, "only text is embedded by the providers of other protocols")
		}
		words += said
	})
	if err == nil && n == 0 {
		err = dialect.Invalid(path+"content.parts", dialect.CodeMissing, "must contain the text")
	}
	return words, want, err
}

func embedRequest(dst, body []byte, model string) ([]byte, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, err
	}
	words, want, err := embedded(a.v, "")
	if err != nil {
		return nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	text(&b, "model", model)
	text(&b, "input", words)
	want.append(&b)
	b.Close('}')
	return b.Bytes(), nil
}

// embedBatchRequest writes one request for all contents, which must have the
// same settings.
func embedBatchRequest(dst, body []byte, model string) ([]byte, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	text(&b, "model", model)
	b.Name("input")
	b.Open('[')
	var all embedOptions
	n := 0
	requests, _ := a.get("requests")
	for e := range requests.Elements() {
		path := dialect.At("requests", n)
		words, want, err := embedded(e, path+".")
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			all = want
		case !want.equal(&all):
			return nil, dialect.Invalid(path, dialect.CodeUnsupported,
				"must ask for the same taskType, title and outputDimensionality as requests[0]: the provider accepts one value per batch")
		}
		b.String(words)
		n++
	}
	if n == 0 {
		return nil, dialect.Invalid("requests", dialect.CodeMissing, "must contain at least one request")
	}
	b.Close(']')
	all.append(&b)
	b.Close('}')
	return b.Bytes(), nil
}

// appendEmbedding appends the only vector of a response of the chat dialect.
func appendEmbedding(dst, body []byte) ([]byte, error) {
	vectors, tokens, err := chatVectors(body)
	if err != nil {
		return nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("embedding")
	appendValues(&b, vectors[0])
	promptUsage(&b, tokens)
	b.Close('}')
	return b.Bytes(), nil
}

func appendEmbeddings(dst, body []byte) ([]byte, error) {
	vectors, tokens, err := chatVectors(body)
	if err != nil {
		return nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("embeddings")
	b.Open('[')
	for _, v := range vectors {
		appendValues(&b, v)
	}
	b.Close(']')
	promptUsage(&b, tokens)
	b.Close('}')
	return b.Bytes(), nil
}

func appendValues(b *jsonedit.Builder, vector jsonedit.Value) {
	b.Open('{')
	b.Name("values")
	b.Raw(vector.Raw())
	b.Close('}')
}

func promptUsage(b *jsonedit.Builder, tokens int64) {
	b.Name("usageMetadata")
	b.Open('{')
	number(b, "promptTokenCount", tokens)
	b.Close('}')
}

// chatVectors reads a response of the chat dialect. It holds at least one
// vector.
func chatVectors(body []byte) (list []jsonedit.Value, tokens int64, err error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, 0, err
	}
	data, _ := v.Get("data")
	for _, e := range dialect.ByIndex(data) {
		vector, _ := e.Get("embedding")
		if vector.Kind() != jsonedit.Array {
			return nil, 0, errNoVectors
		}
		list = append(list, vector)
	}
	if list == nil {
		return nil, 0, errNoVectors
	}
	usage, _ := v.Get("usage")
	return list, new(dialect.Counter).ReadMember(usage, "prompt_tokens"), nil
}
