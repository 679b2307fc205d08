package cohere

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// embedRequest translates an embeddings request to /v2/embed.
// https://docs.cohere.com/reference/embed
func embedRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	input, err := inputsOf(&d)
	if err != nil {
		return dst, nil, err
	}
	fates := dialect.NewParamChanges(&llm.Request{})
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("model")
	b.String(to.Model)
	input.write(&b)
	writeTypes(&b, &d, input)
	for key, v := range d.Members() {
		if v.IsNull() {
			continue
		}
		switch name := key.String(); name {
		case "model", "input", "encoding_format":
		case "dimensions":
			b.Name("output_dimension")
			b.Raw(v.Raw())
		case "input_type", "embedding_types", "truncate", "max_tokens", "priority":
			b.Name(name)
			b.Raw(v.Raw())
		default:
			fates.DropNamed(name)
		}
	}
	b.Close('}')
	return b.Bytes(), fates.List(), nil
}

// writeTypes writes the purpose and the format of the vectors, which Cohere
// requires and clients of the chat dialect may leave out.
func writeTypes(b *jsonedit.Builder, d *jsonedit.Doc, in *inputs) {
	if !hasParam(d, "input_type") {
		b.Name("input_type")
		b.String(in.usualType())
	}
	if !hasParam(d, "embedding_types") {
		b.Name("embedding_types")
		b.Open('[')
		b.String(encodingOf(d))
		b.Close(']')
	}
}

// hasParam reports whether a parameter is set and not null.
func hasParam(d *jsonedit.Doc, name string) bool {
	v, ok := d.Find(name)
	return ok && !v.IsNull()
}

// encodingOf returns the format of vectors that the client requested.
func encodingOf(d *jsonedit.Doc) string {
	if v, ok := d.Find("encoding_format"); ok {
		if s, _ := v.Text(); s != "" {
			return s
		}
	}
	return "float"
}

// inputs holds the inputs to embed: strings, images, or both.
type inputs struct {
	texts, images int
	list          []input
}

type input struct {
	text  string
	image string // a data: URL
}

func inputsOf(d *jsonedit.Doc) (*inputs, error) {
	v, ok := d.Find("input")
	if !ok {
		return nil, dialect.Invalid("input", dialect.CodeMissing, "is required")
	}
	in := new(inputs)
	if v.Kind() != jsonedit.Array {
		return in, in.add(v, "input")
	}
	i := 0
	for e := range v.Elements() {
		if err := in.add(e, dialect.At("input", i)); err != nil {
			return nil, err
		}
		i++
	}
	if i == 0 {
		return nil, dialect.Invalid("input", dialect.CodeValue, "must not be empty")
	}
	return in, nil
}

func (in *inputs) add(v jsonedit.Value, path string) error {
	switch v.Kind() {
	case jsonedit.String:
		s, _ := v.Text()
		in.texts++
		in.list = append(in.list, input{text: s})
		return nil
	case jsonedit.Object:
		if words, ok := v.Get("text"); ok && words.Kind() == jsonedit.String {
			return in.add(words, path)
		}
		if image, ok := v.Get("image"); ok {
			return in.addImage(image, path+".image")
		}
	case jsonedit.Number, jsonedit.Array:
		return dialect.Invalid(path, dialect.CodeUnsupported, "must be text: the provider does not take tokens")
	}
	return dialect.Invalid(path, dialect.CodeType, "must be a string, or an object with text or an image")
}

func (in *inputs) addImage(v jsonedit.Value, path string) error {
	s, _ := v.Text()
	if v.Kind() == jsonedit.Object {
		if s = v.TextOf("base64"); s == "" {
			s = v.TextOf("url")
		}
	}
	switch {
	case s == "":
		return dialect.Invalid(path, dialect.CodeType, "must contain base64 or url")
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		return dialect.Invalid(path, dialect.CodeUnsupported, "must be base64: the provider fetches no images")
	}
	mime, data, isURL := dialect.ParseDataURL(s)
	if !isURL {
		data = s
	}
	data, err := dialect.ParseBase64(path, data)
	if err != nil {
		return err
	}
	if !isURL {
		mime = imageType(data)
	}
	in.images++
	in.list = append(in.list, input{image: "data:" + mime + ";base64," + data})
	return nil
}

// imageType returns the type of an image, recognised by the start of its
// base64.
func imageType(data string) string {
	switch {
	case strings.HasPrefix(data, "/9j/"):
		return "image/jpeg"
	case strings.HasPrefix(data, "R0lG"):
		return "image/gif"
	case strings.HasPrefix(data, "UklG"):
		return "image/webp"
	}
	return "image/png"
}

func (in *inputs) usualType() string {
	if in.texts == 0 {
		return "image"
	}
	return "search_document"
}

func (in *inputs) write(b *jsonedit.Builder) {
	switch {
	case in.images == 0:
		b.Name("texts")
	case in.texts == 0:
		b.Name("images")
	default:
		b.Name("inputs")
	}
	b.Open('[')
	for _, i := range in.list {
		switch {
		case in.images == 0:
			b.String(i.text)
		case in.texts == 0:
			b.String(i.image)
		default:
			i.writeContent(b)
		}
	}
	b.Close(']')
}

func (i *input) writeContent(b *jsonedit.Builder) {
	b.Open('{')
	b.Name("content")
	b.Open('[')
	b.Open('{')
	b.Name("type")
	if i.image == "" {
		b.String("text")
		b.Name("text")
		b.String(i.text)
	} else {
		b.String("image_url")
		b.Name("image_url")
		b.Open('{')
		b.Name("url")
		b.String(i.image)
		b.Close('}')
	}
	b.Close('}')
	b.Close(']')
	b.Close('}')
}

// embedResponse translates the response to the client's list of vectors.
func embedResponse(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, fmt.Errorf("reading embeddings of cohere: %w", err)
	}
	var d jsonedit.Doc
	want := "float"
	if d.Scan(asked) == nil {
		want = encodingOf(&d)
	}
	vectors, ok := vectorsOf(v, want)
	if !ok {
		return dst, errors.New("the response has no embeddings")
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("object")
	b.String("list")
	b.Name("data")
	b.Open('[')
	n := int64(0)
	for vector := range vectors.Elements() {
		b.Open('{')
		b.Name("object")
		b.String("embedding")
		b.Name("index")
		b.Int(n)
		b.Name("embedding")
		writeVector(&b, vector, want)
		b.Close('}')
		n++
	}
	b.Close(']')
	b.Name("model")
	b.String(to.Model)
	b.Name("usage")
	b.Open('{')
	writeTokens(&b, tokensOf(v))
	b.Close('}')
	b.Close('}')
	return b.Bytes(), nil
}

func writeTokens(b *jsonedit.Builder, n int64) {
	b.Name("prompt_tokens")
	b.Int(n)
	b.Name("total_tokens")
	b.Int(n)
}

// vectorsOf returns the vectors of the requested type, otherwise of the first
// type, otherwise the plain list of version 1.
func vectorsOf(v jsonedit.Value, want string) (jsonedit.Value, bool) {
	all, _ := v.Get("embeddings")
	if all.Kind() == jsonedit.Array {
		return all, true
	}
	if list, ok := all.Get(want); ok && list.Kind() == jsonedit.Array {
		return list, true
	}
	for _, list := range all.Fields() {
		if list.Kind() == jsonedit.Array {
			return list, true
		}
	}
	return jsonedit.Value{}, false
}

// writeVector writes a vector as received, or converts numbers to base64 of
// 32-bit floats in little endian if that was requested.
func writeVector(b *jsonedit.Builder, vector jsonedit.Value, want string) {
	if want != "base64" || vector.Kind() != jsonedit.Array {
		b.Raw(vector.Raw())
		return
	}
	var packed []byte
	for n := range vector.Elements() {
		f, _ := n.Float()
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(f)))
	}
	b.String(base64.StdEncoding.EncodeToString(packed))
}

// tokensOf returns the token count in a response of embed or rerank, zero if it is unknown.
func tokensOf(v jsonedit.Value) int64 {
	meta, _ := v.Get("meta")
	counts, ok := meta.Get("tokens")
	if !ok {
		counts, _ = meta.Get("billed_units")
	}
	var c dialect.Counter
	n := c.ReadMember(counts, "input_tokens") + c.ReadMember(counts, "image_tokens")
	if c.Invalid {
		return 0
	}
	return n
}
