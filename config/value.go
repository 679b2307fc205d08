package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
)

// kind is the JSON type of a value.
type kind string

const (
	isObject kind = "an object"
	isArray  kind = "an array"
	isString kind = "a string"
	isNumber kind = "a number"
	isBool   kind = "a boolean"
	isNull   kind = "null"
)

// value is a JSON value as it was written, with members in order.
type value struct {
	kind    kind
	text    string // the value of a string; the text of a number or boolean
	items   []value
	members []member
	raw     json.RawMessage // the source text
	start   int             // offset in the source
}

// count returns the number of values in v, including v.
func (v value) count() int {
	n := 1
	for _, i := range v.items {
		n += i.count()
	}
	for _, m := range v.members {
		n += m.value.count()
	}
	return n
}

type member struct {
	name  string
	value value
}

// maxNesting protects the stack from text that only opens brackets. Free-form
// parameters may nest deeper than routing trees.
const maxNesting = 200

// decode reads one JSON value strictly: valid UTF-8, no duplicate members,
// nothing after it. ok is false if there is no usable value.
func decode(b []byte, into *faults) (v value, ok bool) {
	if !utf8.Valid(b) {
		into.add("$", "is not valid UTF-8; encode the config as UTF-8")
		return value{}, false
	}
	if message := syntaxFault(b); message != "" {
		into.add("$", message)
		return value{}, false
	}
	d := decoder{Cursor: jsonedit.NewCursor(b), faults: into}
	v = d.value("$", 0)
	return v, !d.stopped
}

// syntaxFault returns where b stops being JSON.
func syntaxFault(b []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(b, &raw)
	if err == nil {
		return ""
	}
	at := len(b)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = int(syntax.Offset)
	}
	return fmt.Sprintf("is not JSON (%v, byte %d); correct the text there", err, at)
}

// decoder reads text that is known to be JSON.
type decoder struct {
	*jsonedit.Cursor
	faults  *faults
	stopped bool // nested too deep to continue
}

func (d *decoder) value(path string, depth int) value {
	if depth > maxNesting {
		d.faults.add(path, fmt.Sprintf("is nested deeper than %d levels; flatten it", maxNesting))
		d.stopped = true
		return value{}
	}
	kind, start := d.Kind(), d.Offset()
	var v value
	switch kind {
	case jsonedit.Object:
		v = d.object(path, depth)
	case jsonedit.Array:
		v = d.array(path, depth)
	case jsonedit.String:
		v = value{kind: isString, text: string(jsonedit.Unescape(d.Text()))}
	case jsonedit.Number:
		v = value{kind: isNumber, text: string(d.Raw())}
	case jsonedit.Bool:
		v = value{kind: isBool, text: string(d.Raw())}
	default:
		d.Skip()
		v = value{kind: isNull}
	}
	if !d.stopped {
		v.raw, v.start = d.Bytes()[start:d.Offset()], start
	}
	return v
}

func (d *decoder) array(path string, depth int) value {
	v := value{kind: isArray}
	d.Enter('[')
	for i := 0; !d.stopped && d.Element(); i++ {
		v.items = append(v.items, d.value(item(path, i), depth+1))
	}
	return v
}

func (d *decoder) object(path string, depth int) value {
	v := value{kind: isObject}
	seen := map[string]bool{}
	d.Enter('{')
	for !d.stopped {
		key, ok := d.Field()
		if !ok {
			break
		}
		name := string(jsonedit.Unescape(key))
		at := property(path, name)
		inner := d.value(at, depth+1)
		if seen[name] {
			d.faults.add(at, "is set twice; keep one")
			continue
		}
		seen[name] = true
		v.members = append(v.members, member{name, inner})
	}
	return v
}

// property returns the path of a member.
func property(path, name string) string {
	if len(name) <= 64 && plainName.MatchString(name) {
		return path + "." + name
	}
	return path + "[" + quote(name) + "]"
}

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_-]*$`)

// item returns the path of an element.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// quote returns text of the client for a message.
func quote(s string) string { return strconv.Quote(shorten(s)) }

// shorten cuts s to a readable length.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
