package converse

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// Form returns the translation of embeddings, images and reranking, which go by
// InvokeModel in the form of each model family.
func (Dialect) Form(op api.Operation, to dialect.Target) (dialect.Form, bool) {
	m := modelOf(to.Model)
	switch op {
	case api.Embeddings:
		return embeddingForm(m)
	case api.Images:
		return imageForm(m)
	case api.Rerank:
		return rerankForm(m)
	}
	return dialect.Form{}, false
}

// asking reads a request of the chat dialect, and tells of the parameters that
// nobody took.
type asking struct {
	reading
	v     jsonedit.Value
	to    dialect.Target
	taken map[string]bool
	fates []dialect.Fate
}

func ask(body []byte, to dialect.Target) (*asking, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil || v.Kind() != jsonedit.Object {
		return nil, dialect.Invalid("body", dialect.CodeType, "must be a JSON object")
	}
	return &asking{v: v, to: to, taken: map[string]bool{"model": true}}, nil
}

// take returns a parameter; null is absent.
func (a *asking) take(name string) (jsonedit.Value, bool) {
	a.taken[name] = true
	v, ok := a.v.Get(name)
	return v, ok && !v.IsNull()
}

func (a *asking) word(name string) string {
	v, _ := a.take(name)
	return a.text(name, v)
}

func (a *asking) adapt(name, note string) {
	a.fates = append(a.fates, dialect.Fate{Name: name, Outcome: dialect.Adapted, Note: note})
}

func (a *asking) drop(name string) {
	a.fates = append(a.fates, dialect.Fate{Name: name, Outcome: dialect.Dropped})
}

// done returns what was written, or what is wrong with the request.
func (a *asking) done(dst []byte, b *jsonedit.Builder) ([]byte, []dialect.Fate, error) {
	if a.err != nil {
		return dst, nil, a.err
	}
	for k, v := range a.v.Fields() {
		if name := k.String(); !a.taken[name] && !v.IsNull() {
			a.taken[name] = true
			a.drop(name)
		}
	}
	return b.Bytes(), a.fates, nil
}

// copy writes a parameter under another name as it stood.
func (a *asking) copy(b *jsonedit.Builder, from, to string) {
	if v, ok := a.take(from); ok {
		b.Name(to)
		b.Raw(v.Raw())
	}
}
