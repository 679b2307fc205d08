package converse

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
)

// embeddingForm returns the translator for the model's family.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
func embeddingForm(m model) (dialect.Translator, bool) {
	var write func(a *translationInput, b *jsonedit.Builder)
	form := dialect.Translator{Response: embeddings, Split: splitInputs, Join: dialect.JoinEmbeddings}
	switch m.Method {
	case modeldata.MethodTitanText2:
		write = titanV2
	case modeldata.MethodTitanText:
		write = titanV1
	case modeldata.MethodTitanMedia:
		write = titanImage
	case modeldata.MethodNovaEmbed:
		write = novaEmbed
	case modeldata.MethodCohereEmbed, modeldata.MethodCohereEmbed4:
		write = func(a *translationInput, b *jsonedit.Builder) {
			cohereEmbed(a, b, m.Method == modeldata.MethodCohereEmbed4)
		}
		form = dialect.Translator{Response: embeddings} // accepts several inputs
	default:
		return dialect.Translator{}, false
	}
	form.Request = func(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
		a, err := ask(body, to)
		if err != nil {
			return dst, nil, err
		}
		b := jsonedit.Append(dst)
		b.Open('{')
		write(a, &b)
		a.encodingFormat()
		b.Close('}')
		return a.finish(dst, &b)
	}
	return form, true
}

// splitInputs splits a request to a model that accepts one input at a time. All
// inputs are read first, so that none is sent if one of them is invalid.
func splitInputs(body []byte, to dialect.RequestTarget) ([][]byte, error) {
	a, err := ask(body, to)
	if err != nil {
		return nil, err
	}
	if a.inputs(); a.Err != nil {
		return nil, a.Err
	}
	return dialect.SplitInput(body), nil
}

// encodingFormat takes the parameter of that name, which the gateway handles:
// providers send numbers, and the response is encoded as requested.
func (a *translationInput) encodingFormat() {
	if f := a.word("encoding_format"); f != "" && f != "float" && f != "base64" {
		a.Refuse("encoding_format", dialect.CodeValue, "must be float or base64")
	}
}

// input is one input to embed: text, or an image as base64.
type input struct{ text, image string }

// inputs reads the inputs to embed: a string, an object with text or image, or
// an array of these. These models do not accept tokens.
func (a *translationInput) inputs() (list []input) {
	v, ok := a.take("input")
	switch {
	case !ok:
		a.Refuse("input", dialect.CodeMissing, "is required")
	case v.Kind() == jsonedit.Array:
		for path, e := range a.Elements("input", v) {
			list = append(list, a.input(path, e))
		}
	default:
		list = append(list, a.input("input", v))
	}
	if len(list) == 0 {
		a.Refuse("input", dialect.CodeValue, "must not be empty")
		list = append(list, input{})
	}
	return list
}

func (a *translationInput) input(path string, v jsonedit.Value) (in input) {
	switch v.Kind() {
	case jsonedit.String:
		in.text = a.Text(path, v)
	case jsonedit.Object:
		in.text = v.TextOf("text")
		image, _ := v.Get("image")
		if in.image = image.TextOf("base64"); in.image == "" {
			in.image, _ = image.Text()
		}
		if _, data, ok := dialect.ParseDataURL(in.image); ok {
			in.image = data
		}
	default:
		a.refuse(path, "tokens and arrays inside arrays; send strings")
		return in
	}
	switch {
	case in.text == "" && in.image == "":
		a.Refuse(path, dialect.CodeValue, "must not be empty")
	case in.image != "":
		in.image = a.Base64(path, in.image)
	}
	return in
}

func (a *translationInput) refuse(path, why string) {
	if a.Err == nil {
		a.Err = dialect.Unsupported(path, a.to, "%s", why)
	}
}

// single returns the only input of a request; requests to models that accept
// one are split.
func (a *translationInput) single() input {
	list := a.inputs()
	if len(list) > 1 {
		a.refuse("input", "more than one input in a request; send each in a separate request")
	}
	return list[0]
}

// words returns the text of an input for a model without images.
func (a *translationInput) words(in input) string {
	if in.image != "" {
		a.refuse("input", "images; the model embeds text")
	}
	return in.text
}

func titanV1(a *translationInput, b *jsonedit.Builder) {
	b.Name("inputText")
	b.String(a.words(a.single()))
}

func titanV2(a *translationInput, b *jsonedit.Builder) {
	titanV1(a, b)
	a.copy(b, "dimensions", "dimensions")
	a.copy(b, "normalize", "normalize")
}

func titanImage(a *translationInput, b *jsonedit.Builder) {
	in := a.single()
	if in.text != "" {
		b.Name("inputText")
		b.String(in.text)
	}
	if in.image != "" {
		b.Name("inputImage")
		b.String(in.image)
	}
	if v, ok := a.take("dimensions"); ok {
		b.Name("embeddingConfig")
		b.Raw(wrap("outputEmbeddingLength", v.Raw()))
	}
}

func novaEmbed(a *translationInput, b *jsonedit.Builder) {
	in := a.single()
	b.Name("taskType")
	b.String("SINGLE_EMBEDDING")
	b.Name("singleEmbeddingParams")
	b.Open('{')
	b.Name("embeddingPurpose")
	b.String(cmp.Or(strings.ToUpper(a.word("input_type")), "GENERIC_INDEX"))
	a.copy(b, "dimensions", "embeddingDimension")
	truncate := cmp.Or(strings.ToUpper(a.word("truncate")), "END")
	if in.image != "" {
		if in.text != "" {
			a.refuse("input", "text and image in one input")
		}
		b.Name("image")
		b.Raw(imageBlock(imageWord(in.image), in.image))
	} else {
		b.Name("text")
		b.Open('{')
		b.Name("truncationMode")
		b.String(truncate)
		b.Name("value")
		b.String(in.text)
		b.Close('}')
	}
	b.Close('}')
}

// imageWord returns the format of an image, recognised by the start of its
// base64.
func imageWord(data string) string {
	for _, known := range [...]struct{ head, word string }{{"/9j/", "jpeg"}, {"R0lGOD", "gif"}, {"UklGR", "webp"}} {
		if strings.HasPrefix(data, known.head) {
			return known.word
		}
	}
	return "png"
}

func cohereEmbed(a *translationInput, b *jsonedit.Builder, v4 bool) {
	list := a.inputs()
	kind := "search_document"
	if list[0].image != "" {
		kind = "image"
		b.Name("images")
		b.Open('[')
		for _, in := range list {
			if in.image == "" || in.text != "" {
				a.refuse("input", "texts and images in one request")
			}
			b.String("data:image/" + imageWord(in.image) + ";base64," + in.image)
		}
	} else {
		b.Name("texts")
		b.Open('[')
		for _, in := range list {
			if in.image != "" {
				a.refuse("input", "texts and images in one request")
			}
			b.String(in.text)
		}
	}
	b.Close(']')
	b.Name("input_type")
	b.String(cmp.Or(a.word("input_type"), kind))
	if v, ok := a.take("truncate"); ok {
		b.Name("truncate")
		b.Raw(v.Raw())
	}
	if v4 {
		a.copy(b, "dimensions", "output_dimension")
	}
}

var errNoVectors = errors.New("converse: the response has no embeddings")

// embeddings appends the client's response to an embeddings request.
func embeddings(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, errNoVectors
	}
	vectors := vectorsOf(v)
	if len(vectors) == 0 {
		return dst, errNoVectors
	}
	request, _ := jsonedit.ParseValue(asked) // parsed by Request before
	packed := request.TextOf("encoding_format") == "base64"
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("object")
	b.String("list")
	b.Name("data")
	b.Open('[')
	for i, vector := range vectors {
		b.Open('{')
		b.Name("object")
		b.String("embedding")
		b.Name("index")
		b.Int(int64(i))
		b.Name("embedding")
		if packed {
			b.String(pack(vector))
		} else {
			b.Raw(vector.Raw())
		}
		b.Close('}')
	}
	b.Close(']')
	b.Name("model")
	b.String(to.Model)
	var c dialect.Counter
	embeddingUsage(&b, max(c.ReadMember(v, "inputTextTokenCount"), c.ReadMember(v, "inputTokenCount")))
	b.Close('}')
	return b.Bytes(), nil
}

// embeddingUsage writes the input tokens. Some families report them only in a
// header.
func embeddingUsage(b *jsonedit.Builder, tokens int64) {
	b.Name("usage")
	b.Open('{')
	b.Name("prompt_tokens")
	b.Int(tokens)
	b.Name("total_tokens")
	b.Int(tokens)
	b.Close('}')
}

// vectorsOf returns the vectors of a response: one under embedding, or several
// under embeddings, directly, by type, or in objects.
func vectorsOf(v jsonedit.Value) (list []jsonedit.Value) {
	if one, ok := v.Get("embedding"); ok && one.Kind() == jsonedit.Array {
		return append(list, one)
	}
	many, _ := v.Get("embeddings")
	if byType, ok := many.Get("float"); ok {
		many = byType
	}
	for e := range many.Elements() {
		if inner, ok := e.Get("embedding"); ok {
			e = inner
		}
		if e.Kind() == jsonedit.Array {
			list = append(list, e)
		}
	}
	return list
}

// pack returns a vector as clients of the chat dialect expect it: 32-bit
// floats, little-endian, in base64.
func pack(vector jsonedit.Value) string {
	var raw []byte
	for e := range vector.Elements() {
		f, _ := e.Float()
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(f)))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
