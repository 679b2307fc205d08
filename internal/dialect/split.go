package dialect

import (
	"cmp"
	"fmt"
	"slices"

	"modelgate/internal/format/jsonedit"
)

// SplitInput returns one request for each input of an embeddings request, or
// nil if it has fewer than two.
func SplitInput(body []byte) [][]byte {
	var d jsonedit.Doc
	if d.Scan(body) != nil {
		return nil
	}
	input, _ := d.Find("input")
	var list [][]byte
	for e := range input.Elements() {
		list = append(list, d.Apply(nil, jsonedit.Edit{Name: "input", Value: e.Raw()}))
	}
	if len(list) < 2 {
		return nil
	}
	return list
}

// CountInputs returns the number of inputs of an embeddings request and the
// size of its input in bytes. An input that is not a list counts as one.
func CountInputs(body []byte) (n, size int) {
	var d jsonedit.Doc
	if d.Scan(body) != nil {
		return 1, 0
	}
	input, _ := d.Find("input")
	for range input.Elements() {
		n++
	}
	return max(n, 1), len(input.Raw())
}

// JoinEmbeddings appends one response of the chat dialect for several: all
// vectors, renumbered, and the sum of tokens.
func JoinEmbeddings(dst []byte, responses [][]byte) ([]byte, error) {
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("object")
	b.String("list")
	b.Name("data")
	b.Open('[')
	var model jsonedit.Value
	var vectors, tokens int64
	for i, response := range responses {
		v, err := jsonedit.ParseValue(response)
		if err != nil {
			return dst, fmt.Errorf("joining the response %d: %w", i, err)
		}
		model, _ = v.Get("model")
		usage, _ := v.Get("usage")
		prompt, _ := usage.Get("prompt_tokens")
		n, _ := prompt.Int()
		tokens += n
		data, _ := v.Get("data")
		for _, e := range ByIndex(data) {
			appendNumbered(&b, e, vectors)
			vectors++
		}
	}
	b.Close(']')
	b.Name("model")
	b.Raw(model.Raw())
	b.Name("usage")
	b.Open('{')
	b.Name("prompt_tokens")
	b.Int(tokens)
	b.Name("total_tokens")
	b.Int(tokens)
	b.Close('}')
	b.Close('}')
	return b.Bytes(), nil
}

// ByIndex returns the elements of a list of embeddings in the order of their members index,
// which are those of the inputs. An element without one has the index of its place.
// https://platform.openai.com/docs/api-reference/embeddings/object
func ByIndex(list jsonedit.Value) []jsonedit.Value {
	type numbered struct {
		index int64
		value jsonedit.Value
	}
	var all []numbered
	for e := range list.Elements() {
		index, _ := e.Get("index")
		n, ok := index.Int()
		if !ok {
			n = int64(len(all))
		}
		all = append(all, numbered{n, e})
	}
	slices.SortStableFunc(all, func(a, b numbered) int { return cmp.Compare(a.index, b.index) })
	sorted := make([]jsonedit.Value, len(all))
	for i := range all {
		sorted[i] = all[i].value
	}
	return sorted
}

// appendNumbered writes a vector with index n.
func appendNumbered(b *jsonedit.Builder, v jsonedit.Value, n int64) {
	b.Open('{')
	for key, inner := range v.Fields() {
		b.Key(key.String())
		if key.Is("index") {
			b.Int(n)
		} else {
			b.Raw(inner.Raw())
		}
	}
	b.Close('}')
}
