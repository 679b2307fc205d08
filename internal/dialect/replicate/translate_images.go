package replicate

import (
	"errors"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// paintNames maps parameters to inputs of image models.
var paintNames = map[string]string{
	"prompt": "prompt", "n": "num_outputs", "seed": "seed", "negative_prompt": "negative_prompt",
	"aspect_ratio": "aspect_ratio", "output_format": "output_format",
}

// ratios maps common sizes to aspect ratios.
var ratios = map[string]string{
	"256x256": "1:1", "512x512": "1:1", "1024x1024": "1:1", "1792x1024": "16:9", "1024x1792": "9:16", "1536x1024": "3:2", "1024x1536": "2:3",
}

// imageRequest writes the input of an image model.
func imageRequest(dst, body []byte, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return dst, nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	if prompt, _ := d.Find("prompt"); prompt.Kind() != jsonedit.String {
		return dst, nil, dialect.Invalid("prompt", dialect.CodeMissing, "must be a string")
	}
	e := &requestEncoder{Builder: jsonedit.Append(dst), to: to, changes: dialect.NewParamChanges(&llm.Request{})}
	e.begin(to)
	for key, v := range d.Members() {
		name := key.String()
		word, _ := v.Text()
		switch {
		case v.IsNull(), name == "model", name == "response_format" && word == "url":
		case name == "response_format":
			return dst, nil, dialect.Unsupported(name, to, "images as data; leave it out, and the response has addresses")
		case paintNames[name] != "":
			e.Name(paintNames[name])
			e.Raw(v.Raw())
		case name == "size" && ratios[word] != "":
			e.changes.AdaptNamed(name, dialect.NoteMember("aspect_ratio", ratios[word]))
			e.Name("aspect_ratio")
			e.String(ratios[word])
		default:
			e.changes.DropNamed(name)
		}
	}
	e.Close('}')
	e.Close('}')
	return e.Bytes(), e.changes.List(), nil
}

var errNoImages = errors.New("the prediction contains no images")

// imageResponse writes the URLs of the images.
func imageResponse(dst, body, _ []byte, to dialect.RequestTarget) ([]byte, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return dst, err
	}
	output, _ := v.Get("output")
	list := texts(output)
	if len(list) == 0 {
		return dst, errNoImages
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("created")
	b.Int(to.Created)
	b.Name("data")
	b.Open('[')
	for _, address := range list {
		b.Open('{')
		b.Name("url")
		b.String(address)
		b.Close('}')
	}
	b.Close(']')
	b.Close('}')
	return b.Bytes(), nil
}
