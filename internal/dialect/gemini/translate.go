package gemini

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
)

// Translator returns the translator of embeddings or images. It depends on the
// model, like the path: embeddings of the Gemini API go to :batchEmbedContents,
// those on Vertex AI to :predict, and those of gemini-embedding-2 there to
// :embedContent. Images of imagen models go to :predict, those of other models
// to :generateContent.
func (Dialect) Translator(op api.Operation, to dialect.RequestTarget) (dialect.Translator, bool) {
	model := modeldata.Google.Of(to.KnownModel())
	switch op {
	case api.Embeddings:
		switch {
		case !to.Vertex:
			return dialect.Translator{Request: batchRequest, Response: vectorsOf(batchVectors)}, true
		case model.Method != "":
			return dialect.Translator{Request: contentRequest, Response: vectorsOf(contentVector), Split: splitInputs, Join: dialect.JoinEmbeddings},
				true
		case model.OneInput:
			return dialect.Translator{Request: predictRequest, Response: vectorsOf(predictVectors), Split: splitInputs,
				Join: dialect.JoinEmbeddings}, true
		}
		return dialect.Translator{Request: predictRequest, Response: vectorsOf(predictVectors)}, true
	case api.Images:
		if model.Method != "" {
			return dialect.Translator{Request: imagenRequest, Response: imagenResponse}, true
		}
		return dialect.Translator{Request: imageRequest, Response: imageResponse}, true
	}
	return dialect.Translator{}, false
}

// operationRequest is a client's request for embeddings or images.
type operationRequest struct {
	v       jsonedit.Value
	changes []dialect.ParamChange
}

func readOperation(body []byte) (*operationRequest, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil || v.Kind() != jsonedit.Object {
		return nil, dialect.Invalid("body", dialect.CodeType, "must be a JSON object")
	}
	return &operationRequest{v: v}, nil
}

// get returns a parameter that is set.
func (a *operationRequest) get(name string) (jsonedit.Value, bool) {
	v, ok := a.v.Get(name)
	return v, ok && !v.IsNull()
}

// drop records the parameters that are not in carried as dropped.
func (a *operationRequest) drop(carried ...string) {
	for key, v := range a.v.Fields() {
		if name := key.String(); !v.IsNull() && name != "model" && !slices.Contains(carried, name) {
			a.record(name, dialect.Dropped, "")
		}
	}
}

func (a *operationRequest) record(name string, o dialect.ChangeKind, note string) {
	a.changes = append(a.changes, dialect.ParamChange{Name: name, Outcome: o, Note: note})
}

// copy writes a parameter under the provider's name.
func (a *operationRequest) copy(b *jsonedit.Builder, name, as string) {
	if v, ok := a.get(name); ok {
		b.Name(as)
		b.Raw(v.Raw())
	}
}

var errNoVectors = errors.New("the response has no vectors")

// vector is one embedding: a list of numbers.
type vector struct {
	values jsonedit.Value
	name   string // member of the response; embedding if empty
}

// vectorsOf returns a function that writes the chat dialect's response from
// what read finds in a body.
func vectorsOf(read func(jsonedit.Value) ([]vector, int64)) func(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	return func(dst, body, request []byte, to dialect.RequestTarget) ([]byte, error) {
		v, err := jsonedit.ParseValue(body)
		if err != nil {
			return nil, err
		}
		vectors, tokens := read(v)
		if len(vectors) == 0 {
			return nil, errNoVectors
		}
		b := jsonedit.Append(dst)
		b.Open('{')
		text(&b, "object", "list")
		b.Name("data")
		b.Open('[')
		packed := wantsBase64(request)
		for i, vec := range vectors {
			if vec.values.Kind() != jsonedit.Array {
				return nil, errNoVectors
			}
			vec.append(&b, i, packed)
		}
		b.Close(']')
		text(&b, "model", to.Model)
		b.Name("usage")
		b.Open('{')
		number(&b, "prompt_tokens", tokens)
		number(&b, "total_tokens", tokens)
		b.Close('}')
		b.Close('}')
		return b.Bytes(), nil
	}
}

func (v vector) append(b *jsonedit.Builder, i int, packed bool) {
	b.Open('{')
	text(b, "object", "embedding")
	number(b, "index", int64(i))
	name := "embedding"
	if v.name != "" {
		name = v.name
	}
	b.Name(name)
	appendVector(b, v.values, packed)
	b.Close('}')
}

func wantsBase64(request []byte) bool {
	a, err := readOperation(request)
	if err != nil {
		return false
	}
	format, _ := a.get("encoding_format")
	return string(format.Raw()) == `"base64"`
}

// appendVector writes numbers, or base64 of 32-bit floats if the client
// requested it: official clients do, and the providers have no such format.
func appendVector(b *jsonedit.Builder, values jsonedit.Value, packed bool) {
	if !packed {
		b.Raw(compact(values.Raw()))
		return
	}
	var bytes []byte
	for v := range values.Elements() {
		f, _ := v.Float()
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(float32(f)))
	}
	b.String(base64.StdEncoding.EncodeToString(bytes))
}

func unsupported(path string, to dialect.RequestTarget, format string, args ...any) *apierr.Error {
	return dialect.Unsupported(path, to, format, args...)
}
