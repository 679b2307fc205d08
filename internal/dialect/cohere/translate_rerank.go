package cohere

import (
	"errors"
	"fmt"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// rerankRequest translates a request for reranking to /v2/rerank.
// https://docs.cohere.com/reference/rerank
func rerankRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	fates := dialect.NewParamChanges(&llm.Request{})
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("model")
	b.String(to.Model)
	if err := dialect.AppendRerankRequest(&b, &d); err != nil {
		return dst, nil, err
	}
	for key, v := range d.Members() {
		if v.IsNull() {
			continue
		}
		switch name := key.String(); name {
		case "model", "query", "documents", "return_documents": // the gateway adds the documents to the response
		case "top_n", "max_tokens_per_doc", "priority":
			b.Name(name)
			b.Raw(v.Raw())
		case "rank_fields":
			fates.AdaptNamed(name, "documents as lines of these fields")
		default:
			fates.DropNamed(name)
		}
	}
	b.Close('}')
	return b.Bytes(), fates.List(), nil
}

// rerankResponse translates the response to the unified list, the best first.
func rerankResponse(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, fmt.Errorf("reading ranks of cohere: %w", err)
	}
	results, ok := v.Get("results")
	if !ok || results.Kind() != jsonedit.Array {
		return dst, errors.New("the response has no results")
	}
	var d jsonedit.Doc
	if d.Scan(asked) != nil {
		d.Reset()
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("id")
	b.String(text(v, "id"))
	b.Name("object")
	b.String("list")
	dialect.AppendRerankResults(&b, results, &d)
	b.Name("model")
	b.String(to.Model)
	writeUnits(&b, v)
	b.Name("provider")
	b.String(to.Provider)
	b.Close('}')
	return b.Bytes(), nil
}

// writeUnits writes Cohere's counters: search units, and tokens if present.
func writeUnits(b *jsonedit.Builder, v jsonedit.Value) {
	meta, _ := v.Get("meta")
	billed, _ := meta.Get("billed_units")
	b.Name("usage")
	b.Open('{')
	if _, ok := billed.Get("search_units"); ok {
		b.Name("search_units")
		b.Int(count(billed, "search_units"))
	}
	if n := tokensOf(v); n > 0 {
		writeTokens(b, n)
	}
	b.Close('}')
}
