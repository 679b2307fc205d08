package converse

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// Translator returns the translator of embeddings, images or reranking, which
// use InvokeModel in the format of each model family.
func (Dialect) Translator(op api.Operation, to dialect.RequestTarget) (dialect.Translator, bool) {
	m := modelOf(to.KnownModel())
	switch op {
	case api.Embeddings:
		return embeddingForm(m)
	case api.Images:
		return imageForm(m)
	case api.Rerank:
		return rerankForm(m)
	}
	return dialect.Translator{}, false
}

// translationInput reads a request of the chat dialect, and records the
// parameters that were not taken as dropped.
type translationInput struct {
	reader
	v       jsonedit.Value
	to      dialect.RequestTarget
	taken   map[string]bool
	changes []dialect.ParamChange
}

func ask(body []byte, to dialect.RequestTarget) (*translationInput, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil || v.Kind() != jsonedit.Object {
		return nil, dialect.Invalid("body", dialect.CodeType, "must be a JSON object")
	}
	return &translationInput{v: v, to: to, taken: map[string]bool{"model": true}}, nil
}

// take returns a parameter; null is absent.
func (a *translationInput) take(name string) (jsonedit.Value, bool) {
	a.taken[name] = true
	v, ok := a.v.Get(name)
	return v, ok && !v.IsNull()
}

func (a *translationInput) word(name string) string {
	v, _ := a.take(name)
	return a.Text(name, v)
}

func (a *translationInput) adapt(name, note string) {
	a.changes = append(a.changes, dialect.ParamChange{Name: name, Outcome: dialect.Adapted, Note: note})
}

func (a *translationInput) drop(name string) {
	a.changes = append(a.changes, dialect.ParamChange{Name: name, Outcome: dialect.Dropped})
}

// finish returns the body, or the error of the request.
func (a *translationInput) finish(dst []byte, b *jsonedit.Builder) ([]byte, []dialect.ParamChange, error) {
	if a.Err != nil {
		return dst, nil, a.Err
	}
	for k, v := range a.v.Fields() {
		if name := k.String(); !a.taken[name] && !v.IsNull() {
			a.taken[name] = true
			a.drop(name)
		}
	}
	return b.Bytes(), a.changes, nil
}

// copy writes a parameter unchanged under another name.
func (a *translationInput) copy(b *jsonedit.Builder, from, to string) {
	if v, ok := a.take(from); ok {
		b.Name(to)
		b.Raw(v.Raw())
	}
}
