package dialect

import "modelgate/internal/format/jsonedit"

// freeTextInput is the only argument of a function that replaces a custom tool.
const freeTextInput = "input"

// FreeText is the schema of a function that replaces a custom tool, whose input
// is text rather than JSON, at targets that only have functions. Callers must
// not change it.
var FreeText = []byte(`{"type":"object","properties":{"` + freeTextInput + `":{"type":"string"}},"required":["` + freeTextInput + `"]}`)

// WrapText returns the input of a custom tool as the arguments of the function
// that replaces it.
func WrapText(text string) string { return textObject(freeTextInput, text) }

// textObject returns an object with one member.
func textObject(name, text string) string {
	var b jsonedit.Builder
	b.Open('{')
	b.Name(name)
	b.String(text)
	b.Close('}')
	return string(b.Bytes())
}

// UnwrapText undoes WrapText. Arguments in another form are returned unchanged:
// a model may call the function as if it were the custom tool.
func UnwrapText(arguments string) string {
	v, err := jsonedit.ParseValue([]byte(arguments))
	if err != nil {
		return arguments
	}
	input, _ := v.Get(freeTextInput)
	if text, ok := input.Text(); ok {
		return text
	}
	return arguments
}
