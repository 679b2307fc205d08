package tokens

import (
	"math"

	"modelgate/internal/jsonedit"
)

// message is the number of tokens around each message of a request.
const message = 4

// EstimateRequest returns an estimate of the text tokens of a JSON request: of its
// messages, and of tools and what providers add for them. Strings that media
// reports to be images or files are left out. A number in an array of input or prompt is a
// token. Body may be invalid JSON.
func EstimateRequest(provider, model string, body []byte, media func([]byte) bool) int64 {
	var text []byte
	messages, numbers, depth, tools := 0, 0, 0, 0 // tools is the depth of the definitions of tools, 0 outside
	hasTools := false
	var key []byte
	c := jsonedit.NewCursor(body)
	for len(text) < maxText {
		first, s := c.Token()
		if first == 0 {
			break
		}
		switch first {
		case '[', ',':
			if next := c.Peek(); next >= '0' && next <= '9' && (string(key) == "input" || string(key) == "prompt") {
				numbers++
			}
		}
		switch first {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < tools {
				tools = 0
			}
		case '"':
			if c.Peek() == ':' {
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
	n := Estimate(provider, model, text) + int64(messages*message+numbers)
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
