package tokens

import (
	"bytes"
	"math"
)

// message is the number of tokens around each message of a request.
const message = 4

// EstimateRequest returns an estimate of the text tokens of a JSON request: of its
// messages, and of tools and what providers add for them. Strings that media
// reports to be images or files are left out. Body may be invalid JSON.
func EstimateRequest(provider, model string, body []byte, media func([]byte) bool) int64 {
	var text []byte
	messages, depth, tools := 0, 0, 0 // tools is the depth of the definitions of tools, 0 outside
	hasTools := false
	var key []byte
	for i := 0; i < len(body) && len(text) < maxText; i++ {
		switch body[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < tools {
				tools = 0
			}
		case '"':
			end := endOfString(body, i+1)
			s := body[i+1 : end]
			i = end
			if isKey(body[min(end+1, len(body)):]) {
				key = s
				if tools > 0 {
					text = append(append(text, s...), '\n')
				} else if string(s) == "tools" {
					tools, hasTools = depth+1, true
				}
				continue
			}
			switch string(key) {
			case "role":
				messages++
			case "model", "type", "id", "tool_call_id", "call_id", "tool_use_id", "signature":
			default:
				if !media(s) {
					text = append(append(text, s...), '\n')
				}
			}
		}
	}
	n := Estimate(provider, model, text) + int64(messages*message)
	if hasTools {
		n += familyOf(provider, model).tools
	}
	if len(text) >= maxText { // the rest is like the beginning
		n = int64(math.Ceil(float64(n) * float64(len(body)) / maxText))
	}
	return n
}

// maxText is the limit of the text that is read of a request, in bytes.
const maxText = 4 << 20

// endOfString returns the index of the quote that ends the string starting at
// from, or the length of b.
func endOfString(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(b)
}

// isKey reports whether the string before b is the name of a field.
func isKey(b []byte) bool {
	b = bytes.TrimLeft(b[:min(len(b), 16)], " \t\r\n")
	return len(b) > 0 && b[0] == ':'
}
