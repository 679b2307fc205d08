package converse

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
)

// imageForm returns the translator for the model's family.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-image.html
func imageForm(m model) (dialect.Translator, bool) {
	var write func(a *translationInput, b *jsonedit.Builder)
	switch m.Method {
	case modeldata.MethodTitanImage, modeldata.MethodNovaImage:
		write = func(a *translationInput, b *jsonedit.Builder) {
			titanImageRequest(a, b, m.Method == modeldata.MethodNovaImage)
		}
	case modeldata.MethodDiffusion:
		write = diffusion
	case modeldata.MethodStability:
		write = stable
	default:
		return dialect.Translator{}, false
	}
	return dialect.Translator{
		Request: func(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
			a, err := ask(body, to)
			if err != nil {
				return dst, nil, err
			}
			b := jsonedit.Append(dst)
			b.Open('{')
			write(a, &b)
			b.Close('}')
			if a.word("response_format") == "url" {
				a.adapt("response_format", "b64_json")
			}
			return a.finish(dst, &b)
		},
		Response: images,
	}, true
}

func (a *translationInput) prompt() string {
	v, _ := a.take("prompt")
	return a.NonEmptyText("prompt", v)
}

// size reads a size such as 1024x1024. With auto or none the model decides.
func (a *translationInput) size() (width, height int64, ok bool) {
	s := a.word("size")
	if s == "" || s == "auto" {
		return 0, 0, false
	}
	w, h, _ := strings.Cut(s, "x")
	width, errWidth := strconv.ParseInt(w, 10, 32)
	height, errHeight := strconv.ParseInt(h, 10, 32)
	if errWidth != nil || errHeight != nil || width < 1 || height < 1 {
		a.Refuse("size", dialect.CodeValue, "must be width x height, as in 1024x1024")
		return 0, 0, false
	}
	return width, height, true
}

func (a *translationInput) sizeInto(b *jsonedit.Builder) {
	if width, height, ok := a.size(); ok {
		b.Name("width")
		b.Int(width)
		b.Name("height")
		b.Int(height)
	}
}

func titanImageRequest(a *translationInput, b *jsonedit.Builder, nova bool) {
	b.Name("taskType")
	b.String("TEXT_IMAGE")
	b.Name("textToImageParams")
	b.Open('{')
	b.Name("text")
	b.String(a.prompt())
	a.copy(b, "negative_prompt", "negativeText")
	// Nova has its own styles, in capitals, and rejects those of other vendors.
	if style := a.word("style"); style != "" && nova && style == strings.ToUpper(style) {
		b.Name("style")
		b.String(style)
	} else if style != "" {
		a.drop("style")
	}
	b.Close('}')
	b.Name("imageGenerationConfig")
	b.Open('{')
	a.copy(b, "n", "numberOfImages")
	a.sizeInto(b)
	a.quality(b)
	a.copy(b, "cfg_scale", "cfgScale")
	a.copy(b, "seed", "seed")
	b.Close('}')
}

// quality writes the quality, which has two levels here.
func (a *translationInput) quality(b *jsonedit.Builder) {
	asked := a.word("quality")
	quality := map[string]string{"standard": "standard", "low": "standard", "medium": "standard", "premium": "premium", "hd": "premium",
		"high": "premium"}[asked]
	switch {
	case asked == "" || asked == "auto":
		return
	case quality == "":
		a.drop("quality")
		return
	case quality != asked:
		a.adapt("quality", quality)
	}
	b.Name("quality")
	b.String(quality)
}

func diffusion(a *translationInput, b *jsonedit.Builder) {
	b.Name("text_prompts")
	b.Open('[')
	b.Open('{')
	b.Name("text")
	b.String(a.prompt())
	b.Name("weight")
	b.Int(1)
	b.Close('}')
	if v, ok := a.take("negative_prompt"); ok {
		b.Open('{')
		b.Name("text")
		b.Raw(v.Raw())
		b.Name("weight")
		b.Int(-1)
		b.Close('}')
	}
	b.Close(']')
	a.copy(b, "n", "samples")
	a.sizeInto(b)
	a.copy(b, "style", "style_preset")
	a.copy(b, "cfg_scale", "cfg_scale")
	a.copy(b, "seed", "seed")
}

// stable writes a request for models that accept an aspect ratio instead of a
// size, and return one image at a time.
func stable(a *translationInput, b *jsonedit.Builder) {
	b.Name("prompt")
	b.String(a.prompt())
	a.copy(b, "negative_prompt", "negative_prompt")
	a.copy(b, "seed", "seed")
	a.copy(b, "output_format", "output_format")
	if v, ok := a.take("n"); ok && string(v.Raw()) != "1" {
		a.refuse("n", "more than one image in a request")
	}
	if v, ok := a.take("aspect_ratio"); ok {
		b.Name("aspect_ratio")
		b.Raw(v.Raw())
		return
	}
	if width, height, ok := a.size(); ok {
		shape := shapeOf(width, height)
		a.adapt("size", dialect.NoteMember(dialect.AspectRatio, shape))
		b.Name("aspect_ratio")
		b.String(shape)
	}
}

// shapeOf returns the aspect ratio nearest to a size.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-diffusion-3-text-image.html
func shapeOf(width, height int64) string {
	best, least := "1:1", 1e9
	for _, s := range [...]struct{ w, h float64 }{{1, 1}, {16, 9}, {9, 16}, {21, 9}, {9, 21}, {3, 2}, {2, 3}, {5, 4}, {4, 5}} {
		have, want := float64(width)/float64(height), s.w/s.h
		if off := max(have/want, want/have); off < least {
			best, least = fmt.Sprintf("%g:%g", s.w, s.h), off
		}
	}
	return best
}

var errNoImages = errors.New("converse: the response has no images")

// images appends the client's response to an image request. If the provider
// withheld the images, it is an error.
func images(dst, body, asked []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, errNoImages
	}
	if why := withheld(v); why != "" {
		return dst, apierr.New(apierr.Invalid, "the provider withheld the images: %.200s", why).WithParam("prompt")
	}
	list, _ := v.Get("images")
	artifacts, old := v.Get("artifacts")
	if old {
		list = artifacts
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("created")
	b.Int(to.Created)
	b.Name("data")
	b.Open('[')
	n := 0
	for e := range list.Elements() {
		if inner, ok := e.Get("base64"); ok {
			e = inner
		}
		if e.Kind() == jsonedit.String {
			b.Raw(wrap("b64_json", e.Raw()))
			n++
		}
	}
	b.Close(']')
	b.Close('}')
	if n == 0 {
		return dst, errNoImages
	}
	return b.Bytes(), nil
}

// withheld returns the reason why a filter of the provider withheld images,
// empty if none did.
func withheld(v jsonedit.Value) string {
	if why := v.TextOf("error"); why != "" {
		return why
	}
	if status := v.TextOf("status"); status != "" {
		return status
	}
	artifacts, _ := v.Get("artifacts")
	for e := range artifacts.Elements() {
		if why := e.TextOf("finishReason"); why == "CONTENT_FILTERED" {
			return why
		}
	}
	reasons, _ := v.Get("finish_reasons")
	for e := range reasons.Elements() {
		if why, _ := e.Text(); why != "" {
			return why
		}
	}
	return ""
}
