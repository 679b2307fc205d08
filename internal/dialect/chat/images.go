package chat

import (
	"bytes"

	"modelgate/internal/jsonedit"
)

// The specification's rules for images are those of two models; a body without
// model means the older. Later models have other sizes, qualities and lengths,
// and of theirs only what all share is checked.
var (
	olderImagesRoute = newRoute(images(1000, 10,
		words{"standard", "auto"},
		words{"256x256", "512x512", "1024x1024"},
		nullOnly{": only dall-e-3 has styles"}))
	newerImagesRoute = newRoute(images(4000, 1,
		words{"standard", "hd", "auto"},
		words{"1024x1024", "1792x1024", "1024x1792"},
		words{"vivid", "natural"}))
	imagesRoute = newRoute([]param{
		{name: "model", rule: text{}},
		{name: "prompt", rule: text{}, required: true},
		{name: "n", rule: integer{1, 10}},
		{name: "quality", rule: text{}},
		{name: "response_format", rule: words{"url", "b64_json", "base64"}},
		{name: "size", rule: text{}},
		{name: "style", rule: text{}},
		user,
	})
)

func images(chars int, n int64, quality, size words, style rule) []param {
	return []param{
		{name: "model", rule: text{}},
		{name: "prompt", rule: text{chars: chars, why: " for this model"}, required: true},
		{name: "n", rule: integer{1, n}},
		{name: "quality", rule: quality},
		{name: "response_format", rule: words{"url", "b64_json"}},
		{name: "size", rule: size},
		{name: "style", rule: style},
		user,
	}
}

// forModel returns the route that the model of the body asks for, which is r
// unless the specification has rules for that model.
func (r *route) forModel(d *jsonedit.Doc) *route {
	switch r {
	case imagesRoute:
		return imagesRouteFor(d)
	case embeddingsRoute:
		if string(modelName(d)) == "text-embedding-ada-002" {
			return referenceEmbeddingsRoute
		}
	}
	return r
}

func imagesRouteFor(d *jsonedit.Doc) *route {
	v, ok := d.Find("model")
	if !ok || v.IsNull() {
		if asksLaterImageModel(d) {
			return imagesRoute
		}
		return olderImagesRoute
	}
	switch string(modelName(d)) {
	case "dall-e-2":
		return olderImagesRoute
	case "dall-e-3":
		return newerImagesRoute
	}
	return imagesRoute
}

// asksLaterImageModel reports whether a body without model uses what only the
// GPT image models have; the vendor then takes one of those.
// https://platform.openai.com/docs/api-reference/images/create#images-create-model
func asksLaterImageModel(d *jsonedit.Doc) bool {
	for _, name := range [...]string{"background", "moderation", "output_format", "output_compression", "partial_images", "stream"} {
		if v, ok := d.Find(name); ok && !v.IsNull() {
			return true
		}
	}
	return isWord(d, "quality", "low", "medium", "high") || isWord(d, "size", "auto", "1536x1024", "1024x1536")
}

func isWord(d *jsonedit.Doc, name string, words ...string) bool {
	v, ok := d.Find(name)
	if !ok {
		return false
	}
	got, _ := v.TextBytes()
	for _, w := range words {
		if string(got) == w {
			return true
		}
	}
	return false
}

// modelName is the model of a body without a provider's name before it, as in
// "openai/dall-e-3"; nil when there is none.
func modelName(d *jsonedit.Doc) []byte {
	v, ok := d.Find("model")
	if !ok {
		return nil
	}
	name, _ := v.TextBytes()
	return name[bytes.LastIndexByte(name, '/')+1:]
}
