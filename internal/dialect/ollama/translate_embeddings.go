package ollama

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// embedRequest translates an embeddings request to /api/embed.
// https://docs.ollama.com/api/embed
func embedRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	fates := dialect.NewParamChanges(&llm.Request{})
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("model")
	b.String(to.Model)
	if err := writeInput(&b, &d); err != nil {
		return dst, nil, err
	}
	for key, v := range d.Members() {
		if v.IsNull() {
			continue
		}
		switch name := key.String(); name {
		case "model", "input", "encoding_format": // the gateway encodes numbers
		case "dimensions", "truncate", "keep_alive", "options":
			b.Name(name)
			b.Raw(v.Raw())
		default:
			fates.DropNamed(name)
		}
	}
	b.Close('}')
	return b.Bytes(), fates.List(), nil
}

func writeInput(b *jsonedit.Builder, d *jsonedit.Doc) error {
	v, ok := d.Find("input")
	if !ok {
		return dialect.Invalid("input", dialect.CodeMissing, "is required")
	}
	b.Name("input")
	if v.Kind() != jsonedit.Array {
		words, err := inputText(v, "input")
		if err == nil {
			b.Raw(words)
		}
		return err
	}
	b.Open('[')
	i := 0
	for e := range v.Elements() {
		words, err := inputText(e, "input["+strconv.Itoa(i)+"]")
		if err != nil {
			return err
		}
		b.Raw(words)
		i++
	}
	b.Close(']')
	return nil
}

// inputText returns a string, or the text of an object.
func inputText(v jsonedit.Value, path string) ([]byte, error) {
	words, _ := v.Get("text")
	switch {
	case v.Kind() == jsonedit.String:
		return v.Raw(), nil
	case words.Kind() == jsonedit.String:
		return words.Raw(), nil
	case v.Kind() == jsonedit.Number, v.Kind() == jsonedit.Array:
		return nil, dialect.Invalid(path, dialect.CodeUnsupported, "must be text: the provider does not take tokens")
	}
	return nil, dialect.Invalid(path, dialect.CodeType, "must be a string, or an object with a text")
}

// embedResponse translates the response to the client's list of vectors.
func embedResponse(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, fmt.Errorf("reading embeddings of ollama: %w", err)
	}
	vectors, _ := v.Get("embeddings")
	if vectors.Kind() != jsonedit.Array {
		return dst, errors.New("the response has no embeddings")
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("object")
	b.String("list")
	b.Name("data")
	b.Open('[')
	n, packed := int64(0), wantsBase64(asked)
	for vector := range vectors.Elements() {
		b.Open('{')
		b.Name("object")
		b.String("embedding")
		b.Name("index")
		b.Int(n)
		b.Name("embedding")
		if packed {
			b.String(pack(vector))
		} else {
			b.Raw(vector.Raw())
		}
		b.Close('}')
		n++
	}
	b.Close(']')
	b.Name("model")
	b.String(cmp.Or(v.TextOf("model"), to.Model))
	writeUsage(&b, new(dialect.Counter).ReadMember(v, "prompt_eval_count"))
	b.Close('}')
	return b.Bytes(), nil
}

func writeUsage(b *jsonedit.Builder, tokens int64) {
	b.Name("usage")
	b.Open('{')
	b.Name("prompt_tokens")
	b.Int(tokens)
	b.Name("total_tokens")
	b.Int(tokens)
	b.Close('}')
}

func wantsBase64(asked []byte) bool {
	var d jsonedit.Doc
	if d.Scan(asked) != nil {
		return false
	}
	format, _ := d.Find("encoding_format")
	s, _ := format.Text()
	return s == "base64"
}

// pack returns a vector as base64 of 32-bit floats in little endian.
func pack(vector jsonedit.Value) string {
	var packed []byte
	for n := range vector.Elements() {
		f, _ := n.Float()
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(f)))
	}
	return base64.StdEncoding.EncodeToString(packed)
}
