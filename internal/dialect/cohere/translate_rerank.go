package cohere

import (
	"errors"
	"fmt"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// rerankRequest translates a request for reranking to /v2/rerank.
// https://docs.cohere.com/reference/rerank
func rerankRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	return dialect.TranslateRerank(dst, body, to, rerankParams)
}

var rerankParams = map[string]string{"top_n": "top_n", "max_tokens_per_doc": "max_tokens_per_doc", "priority": "priority"}

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
	b.String(v.TextOf("id"))
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
