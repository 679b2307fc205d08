package cohere

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// rerankRequest translates a request for reranking to /v2/rerank.
// https://docs.cohere.com/reference/rerank
func rerankRequest(dst, body []byte, to dialect.Target) ([]byte, []dialect.Fate, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	fates := dialect.FatesOf(&llm.Request{})
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("model")
	b.String(to.Model)
	if err := writeQuestion(&b, &d); err != nil {
		return dst, nil, err
	}
	for key, v := range d.Members() {
		if v.IsNull() {
			continue
		}
		switch name := key.String(); name {
		case "model", "query", "documents", "return_documents": // the gateway gives documents back
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

// writeQuestion writes the query and what is to be ranked.
func writeQuestion(b *jsonedit.Builder, d *jsonedit.Doc) error {
	query, _ := d.Find("query")
	documents, _ := d.Find("documents")
	switch {
	case query.Kind() != jsonedit.String:
		return dialect.Invalid("query", dialect.CodeMissing, "must be a string")
	case documents.Kind() != jsonedit.Array:
		return dialect.Invalid("documents", dialect.CodeMissing, "must be a list")
	}
	b.Name("query")
	b.Raw(query.Raw())
	return writeDocuments(b, documents, rankFields(d))
}

// rankFields are the names of the members by which documents are ranked.
func rankFields(d *jsonedit.Doc) (names []string) {
	v, _ := d.Find("rank_fields")
	for e := range v.Elements() {
		if s, ok := e.Text(); ok {
			names = append(names, s)
		}
	}
	return names
}

func writeDocuments(b *jsonedit.Builder, documents jsonedit.Value, fields []string) error {
	b.Name("documents")
	b.Open('[')
	i := 0
	for v := range documents.Elements() {
		switch v.Kind() {
		case jsonedit.String:
			b.Raw(v.Raw())
		case jsonedit.Object:
			b.String(documentText(v, fields))
		default:
			return dialect.Invalid("documents["+strconv.Itoa(i)+"]", dialect.CodeType, "must be a string or an object")
		}
		i++
	}
	b.Close(']')
	return nil
}

// documentText is what is ranked of a document that is an object: the fields
// that were asked for, else its text, else all of it. Cohere asks for such
// documents as YAML.
func documentText(v jsonedit.Value, fields []string) string {
	if len(fields) == 0 {
		if words, ok := v.Get("text"); ok && words.Kind() == jsonedit.String {
			s, _ := words.Text()
			return s
		}
		return string(v.Raw())
	}
	var lines strings.Builder
	for _, field := range fields {
		member, ok := v.Get(field)
		if !ok {
			continue
		}
		s, isText := member.Text()
		if !isText {
			s = string(member.Raw())
		}
		lines.WriteString(field + ": " + s + "\n")
	}
	return lines.String()
}

// ranked is one document's place.
type ranked struct {
	index int64
	score float64
	raw   []byte // the score as it stood
}

// rerankResponse translates the answer to the unified list, the best first.
func rerankResponse(dst, body, asked []byte, to dialect.Target) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, fmt.Errorf("reading ranks of cohere: %w", err)
	}
	results, ok := v.Get("results")
	if !ok || results.Kind() != jsonedit.Array {
		return dst, errors.New("the answer holds no results")
	}
	list := rankedOf(results)
	var d jsonedit.Doc
	if d.Scan(asked) != nil {
		d.Reset()
	}
	if n, ok := d.Find("top_n"); ok {
		if n, ok := n.Int(); ok && n >= 0 && n < int64(len(list)) {
			list = list[:n]
		}
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("id")
	b.String(text(v, "id"))
	b.Name("object")
	b.String("list")
	writeRanked(&b, list, sentDocuments(&d))
	b.Name("model")
	b.String(to.Model)
	writeUnits(&b, v)
	b.Name("provider")
	b.String(to.Provider)
	b.Close('}')
	return b.Bytes(), nil
}

func rankedOf(results jsonedit.Value) (list []ranked) {
	for v := range results.Elements() {
		i, _ := v.Get("index")
		n, ok := i.Int()
		score, _ := v.Get("relevance_score")
		f, isNumber := score.Float()
		if ok && isNumber {
			list = append(list, ranked{n, f, score.Raw()})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	return list
}

// sentDocuments are the client's documents, nil when it does not want them
// back.
func sentDocuments(d *jsonedit.Doc) (list []jsonedit.Value) {
	if wanted, _ := d.Find("return_documents"); wanted.Kind() == jsonedit.Bool {
		if yes, _ := wanted.Bool(); yes {
			documents, _ := d.Find("documents")
			for v := range documents.Elements() {
				list = append(list, v)
			}
		}
	}
	return list
}

func writeRanked(b *jsonedit.Builder, list []ranked, documents []jsonedit.Value) {
	b.Name("results")
	b.Open('[')
	for _, r := range list {
		b.Open('{')
		b.Name("index")
		b.Int(r.index)
		b.Name("relevance_score")
		b.Raw(r.raw)
		if r.index >= 0 && r.index < int64(len(documents)) {
			b.Name("document")
			writeDocument(b, documents[r.index])
		}
		b.Close('}')
	}
	b.Close(']')
}

func writeDocument(b *jsonedit.Builder, v jsonedit.Value) {
	if v.Kind() == jsonedit.Object {
		b.Raw(v.Raw())
		return
	}
	b.Open('{')
	b.Name("text")
	b.Raw(v.Raw())
	b.Close('}')
}

// writeUnits writes what Cohere counts: units of search, and tokens where it
// tells them.
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
