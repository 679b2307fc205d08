package dialects

// An ask is a request in no protocol.
type ask struct {
	system string
	turns  []turn
	tools  []string // names; each takes a city
	choose string   // the tool that must be called
	serial bool     // one call at most
	schema bool     // the response is to be an object with a city
	think  bool
	stops  []string
	limit  int
	warm   bool // with temperature 0.5
	mark   bool // the first text of the user must be cached
}

// A turn is a message.
type turn struct {
	role   string // user or assistant
	pieces []piece
}

// A kind is what a piece is.
type kind string

const (
	text     kind = "text"
	thought  kind = "thinking"
	refusal  kind = "refusal"
	call     kind = "call"
	result   kind = "result"
	picture  kind = "image"
	linked   kind = "image at an address"
	document kind = "document"
)

// A piece is a part of a message.
type piece struct {
	kind   kind
	text   string
	sign   string // of thinking or a call
	id     string // of a call or a result
	name   string
	args   string
	failed bool
}

const (
	tinyImage = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	tinyPDF   = "JVBERi0xLjQKJcOkCg=="
	imageURL  = "https://images.example.com/cat.png"
)

// citySchema is that of tools, and of responses in a form.
func citySchema() object {
	return object{"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []any{"city"}, "additionalProperties": false}
}

func user(pieces ...piece) turn      { return turn{"user", pieces} }
func assistant(pieces ...piece) turn { return turn{"assistant", pieces} }
func textPiece(s string) piece       { return piece{kind: text, text: s} }

func each[T, V any](list []T, f func(T) V) (out []any) {
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// set sets members that are not the zero value.
func set(m object, pairs ...any) object {
	for i := 0; i < len(pairs); i += 2 {
		switch v := pairs[i+1].(type) {
		case string:
			if v == "" {
				continue
			}
		case int:
			if v == 0 {
				continue
			}
		case bool:
			if !v {
				continue
			}
		case []any:
			if len(v) == 0 {
				continue
			}
		case []string:
			if len(v) == 0 {
				continue
			}
		case object:
			if len(v) == 0 {
				continue
			}
		case nil:
			continue
		}
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// heat is the temperature of an ask.
func (q *ask) heat() any {
	if q.warm {
		return 0.5
	}
	return nil
}
