package chat

import (
	"errors"
	"fmt"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Translator returns the translator of embeddings or rerank for a host that has its own form
// of them.
func (Dialect) Translator(op api.Operation, to dialect.RequestTarget) (dialect.Translator, bool) {
	switch p := to.Profile.Chat; {
	case p == nil || !p.Voyage:
	case op == api.Embeddings:
		return dialect.Translator{Request: voyageEmbeddings, Response: voyageVectors}, true
	case op == api.Rerank:
		return dialect.Translator{Request: voyageRerank, Response: voyageRanks}, true
	}
	return dialect.Translator{}, false
}

// voyageEmbeddings translates a request for embeddings: the host knows no encoding_format
// other than base64, and no users or tokens.
// https://docs.voyageai.com/reference/embeddings-api
func voyageEmbeddings(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	input, _ := d.Find("input")
	for e := range input.Elements() {
		if e.Kind() != jsonedit.String {
			return dst, nil, dialect.Unsupported("input", to, "tokens and arrays inside arrays; send strings")
		}
	}
	changes := dialect.NewParamChanges(&llm.Request{})
	edits := []jsonedit.Edit{{Name: "dimensions", Rename: "output_dimension"}}
	if model, _ := d.Find("model"); !isText(model, to.Model) {
		edits = append(edits, jsonedit.Edit{Name: "model", Value: jsonedit.AppendString(nil, to.Model)})
	}
	if format, _ := d.Find("encoding_format"); isText(format, "float") { // numbers are the default
		edits = append(edits, jsonedit.Edit{Name: "encoding_format"})
	}
	if _, ok := d.Find("user"); ok {
		changes.DropNamed("user")
		edits = append(edits, jsonedit.Edit{Name: "user"})
	}
	return d.Apply(dst, edits...), changes.List(), nil
}

func isText(v jsonedit.Value, text string) bool {
	s, ok := v.Text()
	return ok && s == text
}

// voyageVectors returns the response as it is.
func voyageVectors(dst, body, _ []byte, _ dialect.RequestTarget) ([]byte, error) {
	return append(dst, body...), nil
}

// voyageRerank translates a request for reranking. Documents are strings, and the number of
// results is top_k.
// https://docs.voyageai.com/reference/reranker-api
func voyageRerank(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	return dialect.TranslateRerank(dst, body, to, voyageParams)
}

var voyageParams = map[string]string{"top_n": "top_k", "top_k": "top_k", "truncation": "truncation"}

// voyageRanks adds the unified list of results to the response, whose own list is data.
func voyageRanks(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, fmt.Errorf("reading ranks of %s: %w", to.Provider, err)
	}
	data, ok := v.Get("data")
	if !ok || data.Kind() != jsonedit.Array {
		return dst, errors.New("the response has no ranks")
	}
	var d jsonedit.Doc
	if d.Scan(asked) != nil {
		d.Reset()
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	for key, member := range v.Fields() {
		if !key.Is("results") {
			b.Key(key.String())
			b.Raw(member.Raw())
		}
	}
	dialect.AppendRerankResults(&b, data, &d)
	b.Close('}')
	return b.Bytes(), nil
}
