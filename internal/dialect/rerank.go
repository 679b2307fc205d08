package dialect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// TranslateRerank appends the body for a provider with a format of its own to dst. Names
// maps the further parameters that the provider has to its names for them; others are
// dropped. The gateway itself adds the documents to the response.
func TranslateRerank(dst, body []byte, to RequestTarget, names map[string]string) ([]byte, []ParamChange, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, Invalid("body", CodeType, "%v", err)
	}
	changes := NewParamChanges(&llm.Request{})
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("model")
	b.String(to.Model)
	if err := AppendRerankRequest(&b, &d); err != nil {
		return dst, nil, err
	}
	for key, v := range d.Members() {
		name := key.String()
		_, native := d.Find(names[name])
		switch {
		case v.IsNull(), name == "model", name == "query", name == "documents", name == "return_documents":
		case name == "rank_fields":
			changes.AdaptNamed(name, DocumentsAsLines)
		case names[name] == "" || native && names[name] != name:
			changes.DropNamed(name)
		default:
			b.Name(names[name])
			b.Raw(v.Raw())
		}
	}
	b.Close('}')
	return b.Bytes(), changes.List(), nil
}

// AppendRerankRequest writes the query and the documents of a unified rerank
// request. Each document becomes a string: an object becomes the lines of its
// rank_fields if they are set, otherwise its text.
func AppendRerankRequest(b *jsonedit.Builder, d *jsonedit.Doc) error {
	query, _ := d.Find("query")
	documents, _ := d.Find("documents")
	switch {
	case query.Kind() != jsonedit.String:
		return Invalid("query", CodeMissing, "must be a string")
	case documents.Kind() != jsonedit.Array:
		return Invalid("documents", CodeMissing, "must be a list")
	}
	b.Name("query")
	b.Raw(query.Raw())
	return appendDocuments(b, documents, rankFields(d))
}

// rankFields returns the names of the members by which documents are ranked.
func rankFields(d *jsonedit.Doc) (names []string) {
	v, _ := d.Find("rank_fields")
	for e := range v.Elements() {
		if s, ok := e.Text(); ok {
			names = append(names, s)
		}
	}
	return names
}

func appendDocuments(b *jsonedit.Builder, documents jsonedit.Value, fields []string) error {
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
			return Invalid("documents["+strconv.Itoa(i)+"]", CodeType, "must be a string or an object")
		}
		i++
	}
	b.Close(']')
	return nil
}

// documentText returns the text to rank of a document that is an object.
// Several fields become lines of YAML, as Cohere documents it.
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

// AppendRerankResults writes the results of a unified response from a
// provider's list of index and relevance_score: the best first, up to the
// requested number, with the documents of the client's request if it asks for them.
func AppendRerankResults(b *jsonedit.Builder, results jsonedit.Value, request *jsonedit.Doc) {
	list := rankedOf(results)
	if n, ok := request.Find("top_n"); ok {
		if n, ok := n.Int(); ok && n >= 0 && n < int64(len(list)) {
			list = list[:n]
		}
	}
	documents := sentDocuments(request)
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
			appendDocument(b, documents[r.index])
		}
		b.Close('}')
	}
	b.Close(']')
}

// ranked is the score of one document.
type ranked struct {
	index int64
	score float64
	raw   []byte // the score as received
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

// sentDocuments returns the client's documents, nil if it does not want them
// returned.
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

func appendDocument(b *jsonedit.Builder, v jsonedit.Value) {
	if v.Kind() == jsonedit.Object {
		b.Raw(v.Raw())
		return
	}
	b.Open('{')
	b.Name("text")
	b.Raw(v.Raw())
	b.Close('}')
}
