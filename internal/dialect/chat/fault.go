package chat

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"modelgate/internal/apierr"
)

// The codes of refusals.
const (
	codeMissing = "missing_required_parameter"
	codeType    = "invalid_type"
	codeValue   = "invalid_value"
)

// fault is why a value is refused. It is made where the value is seen, and the
// path to it is put before it on the way out.
type fault struct {
	path string // from the rule that made it; empty is the value itself
	code string
	want string // what follows "must be"
	sent string // what follows "not"; empty when there is nothing to say
	// full, when given, is the whole message.
	full string
}

// in puts the name of a member before the path.
func (f *fault) in(name string) *fault { return f.under(name) }

// at puts the number of an element before the path.
func (f *fault) at(i int) *fault { return f.under("[" + strconv.Itoa(i) + "]") }

func (f *fault) under(step string) *fault {
	switch {
	case f.path == "":
		f.path = step
	case f.path[0] == '[':
		f.path = step + f.path
	default:
		f.path = step + "." + f.path
	}
	return f
}

func (f *fault) error() *apierr.Error {
	return apierr.New(apierr.Invalid, "%s", f.message()).WithParam(f.path).WithCode(f.code)
}

func (f *fault) message() string {
	switch {
	case f.full != "":
		return f.full
	case f.code == codeMissing:
		return fmt.Sprintf("%s is required: send %s", f.path, f.want)
	case f.sent == "":
		return fmt.Sprintf("%s must be %s", f.path, f.want)
	}
	return fmt.Sprintf("%s must be %s, not %s", f.path, f.want, f.sent)
}

const maxShown = 32 // bytes of a value that a message repeats

// describe says what raw is. Numbers and literals are repeated when short; what
// may be content is named by its kind alone.
func describe(raw []byte) string {
	switch kindOf(raw) {
	case kindText:
		return "a string"
	case kindArray:
		return "an array"
	case kindObject:
		return "an object"
	}
	if len(raw) > maxShown {
		return "a number of " + strconv.Itoa(len(raw)) + " characters"
	}
	return string(raw)
}

// describeWord is describe for a value that should be one of few words: a short
// string is repeated.
func describeWord(raw []byte) string {
	if kindOf(raw) == kindText && len(raw) <= maxShown+2 && utf8.Valid(raw) {
		return string(raw)
	}
	return describe(raw)
}
