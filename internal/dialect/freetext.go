package dialect

import "modelgate/internal/jsonedit"

// freeTextInput is the one argument of a function instead of a custom tool.
const freeTextInput = "input"

// FreeText is the schema of a function that stands for a custom tool, which
// takes text rather than JSON, where a target knows functions alone. It is not
// to be changed.
var FreeText = []byte(`{"type":"object","properties":{"` + freeTextInput + `":{"type":"string"}},"required":["` + freeTextInput + `"]}`)

// WrapText returns the text that a custom tool is called with as the arguments
// of the function in its place.
func WrapText(text string) string {
	var b jsonedit.Builder
	b.Open('{')
	b.Name(freeTextInput)
	b.String(text)
	b.Close('}')
	return string(b.Bytes())
}

// UnwrapText undoes WrapText. Arguments of another form are the text itself: a
// model may call the function as if it were the tool.
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
