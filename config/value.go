package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
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

// value is a JSON value as it was written, with members in their order.
type value struct {
	kind    kind
	text    string // of a string: its meaning; of a number or boolean: its letters
	items   []value
	members []member
	raw     json.RawMessage // the source text
	start   int             // where it begins in the source
}

// count returns the number of values in v, itself included.
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

// maxNesting guards the stack against text that only opens brackets. Free-form
// parameters nest deeper than routing trees do.
const maxNesting = 200

// decode reads one JSON value strictly: valid UTF-8, no member twice, nothing
// behind it. ok is false when there is no value to go on with.
func decode(b []byte, into *faults) (v value, ok bool) {
	if !utf8.Valid(b) {
		into.add("$", "is not valid UTF-8; encode the config as UTF-8")
		return value{}, false
	}
	if message := syntaxFault(b); message != "" {
		into.add("$", message)
		return value{}, false
	}
	d := decoder{src: b, json: json.NewDecoder(bytes.NewReader(b)), faults: into}
	d.json.UseNumber()
	v = d.value("$", 0)
	return v, !d.stopped
}

// syntaxFault says where b stops being JSON.
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

// decoder walks text that is known to be JSON.
type decoder struct {
	src     []byte
	json    *json.Decoder
	faults  *faults
	stopped bool // nested too deep to go on
}

func (d *decoder) value(path string, depth int) value {
	if depth > maxNesting {
		d.stop(path, fmt.Sprintf("is nested deeper than %d levels; flatten it", maxNesting))
	}
	start := d.start()
	token := d.token()
	if d.stopped {
		return value{}
	}
	var v value
	switch t := token.(type) {
	case json.Delim:
		v = d.container(t, path, depth)
	case string:
		v = value{kind: isString, text: t}
	case json.Number:
		v = value{kind: isNumber, text: t.String()}
	case bool:
		v = value{kind: isBool, text: strconv.FormatBool(t)}
	case nil:
		v = value{kind: isNull}
	}
	v.raw, v.start = d.src[start:d.json.InputOffset()], int(start)
	return v
}

// start is where the next token begins.
func (d *decoder) start() int64 {
	at := d.json.InputOffset()
	for int(at) < len(d.src) && strings.IndexByte(" \t\r\n,:", d.src[at]) >= 0 {
		at++
	}
	return at
}

func (d *decoder) container(open json.Delim, path string, depth int) value {
	if open == '[' {
		v := value{kind: isArray}
		for i := 0; !d.stopped && d.json.More(); i++ {
			v.items = append(v.items, d.value(item(path, i), depth+1))
		}
		d.token()
		return v
	}
	v := value{kind: isObject}
	seen := map[string]bool{}
	for !d.stopped && d.json.More() {
		name, _ := d.token().(string)
		at := property(path, name)
		inner := d.value(at, depth+1)
		if seen[name] {
			d.faults.add(at, "is given twice; keep one")
			continue
		}
		seen[name] = true
		v.members = append(v.members, member{name, inner})
	}
	d.token()
	return v
}

func (d *decoder) token() json.Token {
	t, err := d.json.Token()
	if err != nil && !d.stopped {
		d.stop("$", "is not JSON: "+err.Error())
	}
	return t
}

func (d *decoder) stop(path, message string) {
	if !d.stopped {
		d.faults.add(path, message)
		d.stopped = true
	}
}

// property is the path of a member.
func property(path, name string) string {
	if len(name) <= 64 && plainName.MatchString(name) {
		return path + "." + name
	}
	return path + "[" + quote(name) + "]"
}

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_-]*$`)

// item is the path of an element.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// quote shows text of the client in a message.
func quote(s string) string { return strconv.Quote(shorten(s)) }

// shorten cuts s to a length that can be read.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
