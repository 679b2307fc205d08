package converse

import (
	"errors"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
)

// rerankVersion is the version of the format that the models of both vendors
// accept.
const rerankVersion = 2

// rerankForm returns the translator for models that rank documents.
// https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html
func rerankForm(m model) (dialect.Translator, bool) {
	if m.Method != modeldata.MethodRerank {
		return dialect.Translator{}, false
	}
	return dialect.Translator{Request: rerankRequest, Response: ranks}, true
}

func rerankRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	var d jsonedit.Doc
	a, err := ask(body, to)
	if err != nil {
		return dst, nil, err
	}
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	if err := dialect.AppendRerankRequest(&b, &d); err != nil {
		return dst, nil, err
	}
	for _, name := range [...]string{"query", "documents", "return_documents"} { // the gateway adds the documents to the response
		a.take(name)
	}
	if _, ok := a.take("rank_fields"); ok {
		a.adapt("rank_fields", dialect.DocumentsAsLines)
	}
	a.copy(&b, "top_n", "top_n")
	if modelOf(to.KnownModel()).vendor == "cohere" {
		a.copy(&b, "max_tokens_per_doc", "max_tokens_per_doc")
	}
	b.Name("api_version")
	b.Int(rerankVersion)
	b.Close('}')
	return a.finish(dst, &b)
}

// ranks appends the client's response to a rerank request. The body does not
// report the cost.
func ranks(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, err
	}
	results, _ := v.Get("results")
	if results.Kind() != jsonedit.Array {
		return dst, errors.New("converse: the response has no results")
	}
	var d jsonedit.Doc
	if d.Scan(asked) != nil {
		d.Reset()
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("object")
	b.String("list")
	dialect.AppendRerankResults(&b, results, &d)
	b.Name("model")
	b.String(to.Model)
	b.Name("usage")
	b.Raw([]byte(`{}`))
	b.Name("provider")
	b.String(to.Provider)
	b.Close('}')
	return b.Bytes(), nil
}
