package prompt

import (
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// sink takes what a template writes.
type sink struct {
	dst []byte

	// json is true for a template whose result is a JSON document as a whole.
	// What variables hold then stays inside the strings that they are in.
	json     bool
	inString bool
	escaped  bool // the last literal ended in the backslash of an escape
}

// literal writes what the template itself says. Inside of a string quoted makes
// it text of that string, as for a partial.
func (s *sink) literal(text string, quoted bool) {
	if s.json && quoted {
		s.escape(text)
		return
	}
	s.dst = append(s.dst, text...)
	if !s.json {
		return
	}
	for i := range len(text) {
		switch c := text[i]; {
		case s.escaped:
			s.escaped = false
		case s.inString && c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = !s.inString
		}
	}
}

// value writes what a variable holds. Outside of a string of a JSON document it
// may be a number, true, false or null, and nothing else.
func (s *sink) value(name, text string) error {
	switch {
	case !s.json:
		s.dst = append(s.dst, text...)
	case s.escaped:
		return apierr.New(apierr.Invalid, "the variable %.60q follows a backslash in the prompt; remove the backslash",
			name).WithCode("invalid_template")
	case s.inString:
		s.escape(text)
	default:
		v, err := jsonedit.ParseValue([]byte(text))
		if text == "" || err == nil && v.Kind() <= jsonedit.Number && len(v.Raw()) == len(text) {
			s.dst = append(s.dst, text...)
			return nil
		}
		return apierr.New(apierr.Invalid,
			"the variable %.60q is outside of a string of the prompt, so its value must be a number, true, false or null", name).
			WithParam("variables." + name).WithCode("invalid_variable")
	}
	return nil
}

// escape writes text as a part of a JSON string.
func (s *sink) escape(text string) {
	begin := len(s.dst)
	s.dst = jsonedit.AppendString(s.dst, text)
	// The quotes around it are those of the template.
	copy(s.dst[begin:], s.dst[begin+1:])
	s.dst = s.dst[:len(s.dst)-2]
}
