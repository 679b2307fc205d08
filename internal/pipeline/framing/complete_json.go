package framing

import "modelgate/internal/format/jsonedit"

// IsCompleteJSON reports whether b is an object or array that ends with its
// closing bracket: it fails for a truncated body and for one with anything
// behind it. The content is not validated, which would cost as much as
// everything else.
func IsCompleteJSON(b []byte) bool {
	c := jsonedit.NewCursor(b)
	if first := c.Peek(); first != '{' && first != '[' {
		return false
	}
	c.Skip()
	return !c.Failed() && c.Peek() == 0
}
