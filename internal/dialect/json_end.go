package dialect

// JSONEnd finds the end of a JSON object or array that arrives in pieces, such as
// the arguments of a call. The zero value is ready for use.
type JSONEnd struct {
	depth           int
	quoted, escaped bool
	complete        bool
}

// Read reads the next piece. What follows the end is ignored.
func (j *JSONEnd) Read(piece string) {
	for i := 0; i < len(piece) && !j.complete; i++ {
		c := piece[i]
		switch {
		case j.escaped:
			j.escaped = false
		case j.quoted:
			j.escaped, j.quoted = c == '\\', c != '"'
		case c == '"':
			j.quoted = true
		case c == '{' || c == '[':
			j.depth++
		case c == '}' || c == ']':
			j.depth--
			j.complete = j.depth <= 0
		}
	}
}

// Complete reports whether the object or array has ended.
func (j *JSONEnd) Complete() bool { return j.complete }
