package chat

import (
	"bytes"
	"slices"

	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
)

// The specification's rules for images apply to two models; a body without a
// model means the older one. Later models have other sizes, qualities and
// lengths, so only the rules common to all are checked for them.
var (
	olderImagesBody = grammar.NewBody(images(1000, 10,
		grammar.Words{"standard", "auto"},
		grammar.Words{"256x256", "512x512", "1024x1024"},
		grammar.NullOnly{Why: ": only dall-e-3 has styles"}))
	newerImagesBody = grammar.NewBody(images(4000, 1,
		grammar.Words{"standard", "hd", "auto"},
		grammar.Words{"1024x1024", "1792x1024", "1024x1792"},
		grammar.Words{"vivid", "natural"}))
	imagesBody = grammar.NewBody([]grammar.Member{
		{Name: "model", Rule: grammar.Text{}},
		{Name: "prompt", Rule: grammar.Text{}, Required: true},
		{Name: "n", Rule: grammar.Integer{Min: 1, Max: 10}},
		{Name: "quality", Rule: grammar.Text{}},
		{Name: "response_format", Rule: grammar.Words{"url", "b64_json", "base64"}},
		{Name: "size", Rule: grammar.Text{}},
		{Name: "style", Rule: grammar.Text{}},
		user,
	})
)

func images(chars int, n int64, quality, size grammar.Words, style grammar.Rule) []grammar.Member {
	return []grammar.Member{
		{Name: "model", Rule: grammar.Text{}},
		{Name: "prompt", Rule: grammar.Text{Chars: chars, Why: " for this model"}, Required: true},
		{Name: "n", Rule: grammar.Integer{Min: 1, Max: n}},
		{Name: "quality", Rule: quality},
		{Name: "response_format", Rule: grammar.Words{"url", "b64_json"}},
		{Name: "size", Rule: size},
		{Name: "style", Rule: style},
		user,
	}
}

// imagesBodyFor returns the rules for the model in the body.
func imagesBodyFor(d *jsonedit.Doc) *grammar.Body {
	v, ok := d.Find("model")
	if !ok || v.IsNull() {
		if asksLaterImageModel(d) {
			return imagesBody
		}
		return olderImagesBody
	}
	switch modeldata.OpenAI.Of(string(modelName(d))).Images {
	case modeldata.ImagesDALLE2:
		return olderImagesBody
	case modeldata.ImagesDALLE3:
		return newerImagesBody
	}
	return imagesBody
}

// asksLaterImageModel reports whether a body without a model uses parameters
// that only the GPT image models have. The vendor then uses one of these
// models.
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
	return slices.Contains(words, string(got))
}

// modelName returns the model of a body without a provider prefix as in
// "openai/dall-e-3", or nil if there is none.
func modelName(d *jsonedit.Doc) []byte {
	v, ok := d.Find("model")
	if !ok {
		return nil
	}
	name, _ := v.TextBytes()
	return name[bytes.LastIndexByte(name, '/')+1:]
}
