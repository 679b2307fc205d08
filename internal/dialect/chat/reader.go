package chat

import (
	"encoding/json"
	"iter"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// reader reads the values of a request or a message.
type reader struct{ dialect.Reader }

// texts reads a string or an array of strings.
func (d *reader) texts(path string, v jsonedit.Value) []string {
	switch v.Kind() {
	case jsonedit.String:
		return []string{d.Text(path, v)}
	case jsonedit.Array:
		return d.Texts(path, v)
	}
	d.RefuseKind(path, "a string or an array of strings", v)
	return nil
}

func (d *reader) object(path string, v jsonedit.Value) json.RawMessage {
	if !d.Is(path, v, jsonedit.Object, "an object") {
		return nil
	}
	return v.Raw()
}

// fields yields the members of an object.
func (d *reader) fields(path string, v jsonedit.Value) iter.Seq2[jsonedit.Key, jsonedit.Value] {
	d.object(path, v)
	return v.Fields()
}

func (d *reader) cache(path string, v jsonedit.Value) *llm.Cache {
	if v.IsNull() || d.object(path, v) == nil {
		return nil
	}
	ttl, _ := v.Get("ttl")
	d.LoseUnknown(path, v, "type", "mode", "ttl")
	return &llm.Cache{TTL: d.Text(path+".ttl", ttl)}
}
