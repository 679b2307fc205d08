package gemini

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// prompts returns the prompts of an image request.
func (a *operationRequest) prompts() ([]string, error) {
	v, ok := a.get("prompt")
	if !ok {
		return nil, dialect.Invalid("prompt", dialect.CodeMissing, "is required: send what the image is to show")
	}
	var list []string
	var err error
	each(v, "prompt", func(v jsonedit.Value, path string) {
		words, ok := v.Text()
		if !ok && err == nil {
			err = dialect.Invalid(path, dialect.CodeType, "must be a string")
		}
		list = append(list, words)
	})
	return list, err
}

// imageParams are the parameters of images that are translated for every model.
var imageParams = []string{"prompt", "n", "size", "aspect_ratio", "aspectRatio", "response_format"}

// imagenParams are parameters of imagen models only, under the provider's
// names.
var imagenParams = []string{"seed", "negativePrompt", "personGeneration", "safetySetting", "addWatermark", "sampleImageSize", "imageSize",
	"enhancePrompt", "language"}

// imagenRequest writes a request for :predict.
// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/imagen-api
func imagenRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, nil, err
	}
	prompts, err := a.prompts()
	if err != nil {
		return nil, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("instances")
	b.Open('[')
	for _, p := range prompts {
		b.Open('{')
		text(&b, "prompt", p)
		b.Close('}')
	}
	b.Close(']')
	b.Name("parameters")
	b.Open('{')
	a.sampleCount(&b)
	a.aspect(&b)
	a.copy(&b, "style", "sampleImageStyle")
	carried := append(imageParams[:len(imageParams):len(imageParams)], "style", "quality", "mime_type", "mimeType")
	for key, v := range a.v.Fields() {
		if name := camel(key); slices.Contains(imagenParams, name) && !v.IsNull() {
			b.Name(name)
			b.Raw(v.Raw())
			carried = append(carried, key.String())
		}
	}
	a.output(&b)
	b.Close('}')
	b.Close('}')
	a.drop(carried...)
	a.asData()
	return b.Bytes(), a.changes, nil
}

// mostImages is the maximum number of images per request.
const mostImages = 8

func (a *operationRequest) sampleCount(b *jsonedit.Builder) {
	v, ok := a.get("n")
	n, isInt := v.Int()
	if !ok || !isInt {
		return
	}
	if bound := max(1, min(n, mostImages)); bound != n {
		n = bound
		a.record("n", dialect.Adapted, strconv.FormatInt(n, 10))
	}
	number(b, "sampleCount", n)
}

// aspect writes the aspect ratio, which the provider has instead of a size.
func (a *operationRequest) aspect(b *jsonedit.Builder) {
	for key, v := range a.v.Fields() {
		if camel(key) == "aspectRatio" && v.Kind() == jsonedit.String {
			b.Name("aspectRatio")
			b.Raw(v.Raw())
			return
		}
	}
	v, ok := a.get("size")
	size, _ := v.Text()
	if !ok || size == "auto" {
		return
	}
	if ratio, ok := ratioOf(size); ok {
		text(b, "aspectRatio", ratio)
		a.record("size", dialect.Adapted, dialect.NoteMember("aspectRatio", ratio))
		return
	}
	a.record("size", dialect.Dropped, "")
}

// ratios are the aspect ratios that all models support.
var ratios = []struct {
	name  string
	value float64
}{{"9:16", 9. / 16}, {"3:4", 3. / 4}, {"1:1", 1}, {"4:3", 4. / 3}, {"16:9", 16. / 9}}

// ratioOf returns the ratio nearest to a size such as 1024x1536.
func ratioOf(size string) (string, bool) {
	width, height, ok := strings.Cut(size, "x")
	w, errW := strconv.Atoi(width)
	h, errH := strconv.Atoi(height)
	if !ok || errW != nil || errH != nil || w <= 0 || h <= 0 {
		return "", false
	}
	want := float64(w) / float64(h)
	best := ratios[0]
	for _, r := range ratios[1:] {
		if max(want/r.value, r.value/want) < max(want/best.value, best.value/want) {
			best = r
		}
	}
	return best.name, true
}

// output writes how the image is encoded.
func (a *operationRequest) output(b *jsonedit.Builder) {
	quality, hasQuality := a.get("quality")
	mime := field(a.v, "mimeType")
	n, isNumber := quality.Int()
	switch word, _ := quality.Text(); {
	case isNumber:
	case word == "hd" || word == "high":
		n, isNumber = 100, true
	case word == "standard" || word == "medium" || word == "low":
		n, isNumber = 75, true
	case hasQuality && word != "auto":
		a.record("quality", dialect.Dropped, "")
	}
	if !isNumber && mime.IsNull() {
		return
	}
	b.Name("outputOptions")
	b.Open('{')
	if !mime.IsNull() {
		b.Name("mimeType")
		b.Raw(mime.Raw())
	} else {
		text(b, "mimeType", "image/jpeg") // compression is only for this type
	}
	if isNumber {
		number(b, "compressionQuality", n)
		a.record("quality", dialect.Adapted, dialect.NoteMember("compressionQuality", strconv.FormatInt(n, 10)))
	}
	b.Close('}')
}

// asData records that images are returned as data: the provider has no URLs.
func (a *operationRequest) asData() {
	if v, ok := a.get("response_format"); ok && string(v.Raw()) == `"url"` {
		a.record("response_format", dialect.Adapted, "b64_json")
	}
}

var errNoImages = errors.New("the response has no images")

// imagenResponse reads predictions.
func imagenResponse(dst, body, _ []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	var images []string
	filtered := ""
	predictions, _ := v.Get("predictions")
	for p := range predictions.Elements() {
		if data, ok := p.Get("bytesBase64Encoded"); ok {
			words, _ := data.Text()
			images = append(images, words)
		}
		if reason, ok := p.Get("raiFilteredReason"); ok {
			filtered, _ = reason.Text()
		}
	}
	if len(images) == 0 && filtered != "" {
		return nil, dialect.Invalid("prompt", "content_filter", "was refused by the provider: %.300s", filtered)
	}
	return appendImages(dst, images, "", to)
}

// appendImages writes the response of the chat dialect. Usage is empty if there is none.
func appendImages(dst []byte, images []string, usage string, to dialect.RequestTarget) ([]byte, error) {
	if len(images) == 0 {
		return nil, errNoImages
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	number(&b, "created", to.Created)
	b.Name("data")
	b.Open('[')
	for _, data := range images {
		b.Open('{')
		text(&b, "b64_json", data)
		b.Close('}')
	}
	b.Close(']')
	if usage != "" {
		b.Name("usage")
		b.Raw([]byte(usage))
	}
	b.Close('}')
	return b.Bytes(), nil
}

// imageRequest writes a request for an image by a model that also generates
// text.
// https://ai.google.dev/gemini-api/docs/image-generation
func imageRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	a, err := readOperation(body)
	if err != nil {
		return nil, nil, err
	}
	prompts, err := a.prompts()
	if err != nil {
		return nil, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("contents")
	b.Open('[')
	b.Open('{')
	text(&b, "role", roleUser)
	b.Name("parts")
	b.Open('[')
	for _, p := range prompts {
		b.Open('{')
		text(&b, "text", p)
		b.Close('}')
	}
	b.Close(']')
	b.Close('}')
	b.Close(']')
	b.Name("generationConfig")
	b.Open('{')
	b.Name("responseModalities")
	b.Raw([]byte(`["TEXT","IMAGE"]`))
	a.paintConfig(&b)
	b.Close('}')
	b.Close('}')
	a.drop(append(imageParams[:len(imageParams):len(imageParams)], "seed")...)
	a.asData()
	return b.Bytes(), a.changes, nil
}

func (a *operationRequest) paintConfig(b *jsonedit.Builder) {
	if v, ok := a.get("n"); ok && string(v.Raw()) != "1" {
		a.record("n", dialect.Dropped, "") // one image per request
	}
	a.copy(b, "seed", "seed")
	shape := jsonedit.Append(nil)
	shape.Open('{')
	a.aspect(&shape)
	shape.Close('}')
	if len(shape.Bytes()) > len("{}") {
		b.Name("imageConfig")
		b.Raw(shape.Bytes())
	}
}

// imageResponse reads the images of a response.
func imageResponse(dst, body, _ []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	var images []string
	candidates, _ := v.Get("candidates")
	for c := range candidates.Elements() {
		content, _ := c.Get("content")
		parts, _ := content.Get("parts")
		for p := range parts.Elements() {
			piece := pieceOf(p)
			if m := mediaOf(piece); piece.kind == "inlineData" && !piece.thought && m.Data != "" {
				images = append(images, m.Data)
			}
		}
	}
	return appendImages(dst, images, imageUsage(v), to)
}

// imageUsage returns the usage of a response in the format of the images
// operation.
func imageUsage(v jsonedit.Value) string {
	var c counts
	usage, _ := v.Get("usageMetadata")
	if c.read(usage); !c.counter.Known || c.counter.Invalid {
		return ""
	}
	u := c.usage()
	var b jsonedit.Builder
	b.Open('{')
	number(&b, "input_tokens", u.Prompt())
	number(&b, "output_tokens", u.Completion())
	number(&b, "total_tokens", u.Total())
	b.Close('}')
	return string(b.Bytes())
}
