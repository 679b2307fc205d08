package gemini

import (
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// maxSteps is the maximum nesting of a streamed call's arguments.
const maxSteps = 64

// step is one step of a JSON path: a name, or an index.
type step struct {
	name  string
	index int // -1 for a name
}

// partial assembles the arguments of a call that arrive value by value, each
// with its path. A string may arrive in pieces.
// https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Content#PartialArg
type partial struct {
	at      []step // path of the last value; its containers are open
	begun   bool
	unended bool // the last value is a string that is not closed
}

// write appends the value v to the arguments. A value that does not fit after
// the previous ones is ignored.
func (p *partial) write(dst []byte, v jsonedit.Value) []byte {
	path, _ := v.Get("jsonPath")
	name, _ := path.Text()
	to, ok := steps(name)
	if !ok {
		return dst
	}
	value, isText, ok := partialValue(v)
	if !ok {
		return dst
	}
	shared := p.shared(to)
	same := p.begun && shared == len(to) && shared == len(p.at)
	switch {
	case same && p.unended && isText:
		dst = append(dst, value[1:len(value)-1]...)
	case same, p.begun && (shared == len(to) || shared == len(p.at)):
		return dst // this value exists already, or is inside one
	case p.begun && (to[shared].index < 0) != (p.at[shared].index < 0):
		return dst // an array does not become an object
	default:
		dst = p.move(dst, to, shared)
		if isText {
			value = value[:len(value)-1]
		}
		dst = append(dst, value...)
		p.unended = isText
	}
	if more, _ := v.Get("willContinue"); p.unended && string(more.Raw()) != "true" {
		dst, p.unended = append(dst, '"'), false
	}
	return dst
}

// shared returns the number of leading steps that the last value's path and to
// have in common.
func (p *partial) shared(to []step) int {
	n := 0
	for n < len(to) && n < len(p.at) && to[n] == p.at[n] {
		n++
	}
	return n
}

// move closes the containers that to is outside of and opens those that it is
// in.
func (p *partial) move(dst []byte, to []step, shared int) []byte {
	if p.begun {
		dst = append(p.leave(dst, shared+1), ',')
	} else {
		dst = append(dst, '{')
		p.begun = true
	}
	for i := shared; i < len(to); i++ {
		if i > shared {
			dst = append(dst, opening(to[i]))
		}
		if to[i].index < 0 {
			dst = append(jsonedit.AppendString(dst, to[i].name), ':')
		}
	}
	p.at = append(p.at[:0], to...)
	return dst
}

// leave closes the string and the containers deeper than depth.
func (p *partial) leave(dst []byte, depth int) []byte {
	if p.unended {
		dst, p.unended = append(dst, '"'), false
	}
	for i := len(p.at) - 1; i >= depth; i-- {
		dst = append(dst, opening(p.at[i])+2) // { and }, [ and ] differ by 2 in ASCII
	}
	return dst
}

// end closes everything.
func (p *partial) end(dst []byte) []byte {
	if !p.begun {
		return append(dst, "{}"...)
	}
	return p.leave(dst, 0)
}

// opening returns the opening bracket of the container that a step is in.
func opening(s step) byte {
	if s.index < 0 {
		return '{'
	}
	return '['
}

// partialValue returns the value of a piece as JSON.
func partialValue(v jsonedit.Value) (value []byte, isText, ok bool) {
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"stringValue"`:
			return v.Raw(), true, v.Kind() == jsonedit.String
		case `"numberValue"`:
			return v.Raw(), false, v.Kind() == jsonedit.Number
		case `"boolValue"`:
			return v.Raw(), false, v.Kind() == jsonedit.Bool
		case `"nullValue"`:
			return []byte("null"), false, true
		}
	}
	return nil, false, false
}

// steps reads a path such as $.a.b[0]["c"]. The first step is a name.
func steps(path string) ([]step, bool) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok || rest == "" {
		return nil, false
	}
	var list []step
	for rest != "" {
		var s step
		if s, rest, ok = cutStep(rest); !ok || len(list) == maxSteps {
			return nil, false
		}
		list = append(list, s)
	}
	return list, list[0].index < 0
}

func cutStep(s string) (first step, rest string, ok bool) {
	if name, ok := strings.CutPrefix(s, "."); ok {
		n := strings.IndexAny(name, ".[")
		if n < 0 {
			n = len(name)
		}
		return step{name[:n], -1}, name[n:], n > 0
	}
	inner, ok := strings.CutPrefix(s, "[")
	if !ok || inner == "" {
		return first, "", false
	}
	if quote := inner[:1]; quote == "'" || quote == `"` {
		name, rest, ok := strings.Cut(inner[1:], quote+"]")
		return step{name, -1}, rest, ok
	}
	digits, rest, ok := strings.Cut(inner, "]")
	index, err := strconv.Atoi(digits)
	return step{"", index}, rest, ok && err == nil && index >= 0
}
