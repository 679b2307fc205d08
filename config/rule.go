package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A rule describes how the value of a property is read, written and described.
type rule[F any] struct {
	schema *schema
	read   func(r *reader, path string, v value) (F, bool)
	write  func(w writer, f F) (value, bool) // false: not set
}

// prop returns a field: the property name with the rule k, stored in at.
func prop[T, F any](name string, k rule[F], at func(*T) *F, doc string) field[T] {
	return field[T]{
		name: name, doc: doc, schema: k.schema,
		read: func(r *reader, path string, v value, into *T) {
			if f, ok := k.read(r, path, v); ok {
				*at(into) = f
			}
		},
		write: func(w writer, from *T) (value, bool) { return k.write(w, *at(from)) },
	}
}

// needed marks a property without which the object is invalid. It is written
// even if it is zero.
func needed[T any](f field[T]) field[T] {
	write := f.write
	f.required = true
	f.write = func(w writer, from *T) (value, bool) {
		v, _ := write(w, from)
		return v, true
	}
	return f
}

// extension marks a property that the specification does not list.
func extension[T any](f field[T]) field[T] { f.extension = true; return f }

// secret marks a property whose value is a credential.
func secret[T any](f field[T]) field[T] { f.secret = true; return f }

// secretObject marks a property whose value is an object with a credential.
func secretObject[T any](f field[T]) field[T] { f.secret, f.object = true, true; return f }

// destination marks a property that decides where the credentials next to it
// are sent.
func destination[T any](f field[T]) field[T] { f.destination = true; return f }

// setting marks a property that configures a provider and is stored with a
// managed one.
func setting[T any](f field[T]) field[T] { f.setting = true; return f }

// also adds another accepted spelling of the name.
func also[T any](spelling string, f field[T]) field[T] {
	f.also = append(f.also, spelling)
	return f
}

// want reports whether v is of kind k. If not, it adds a fault.
func want(r *reader, path string, v value, k kind) bool {
	if v.kind == k {
		return true
	}
	message := "must be " + string(k) + ", not " + string(v.kind)
	if v.kind == isNull {
		message += "; leave it out instead"
	}
	r.fault(path, message)
	return false
}

// text is a string that may be empty.
var text = rule[string]{
	schema: &schema{Type: "string"},
	read: func(r *reader, path string, v value) (string, bool) {
		return v.text, want(r, path, v, isString)
	},
	write: writeString,
}

// word is a string that must not be empty.
var word = rule[string]{
	schema: &schema{Type: "string", MinLength: 1},
	read: func(r *reader, path string, v value) (string, bool) {
		if !want(r, path, v, isString) {
			return "", false
		}
		if v.text == "" {
			r.fault(path, "must not be empty; leave it out instead")
		}
		return v.text, v.text != ""
	},
	write: writeString,
}

func writeString(_ writer, s string) (value, bool) {
	return value{kind: isString, text: s}, s != ""
}

// checked restricts k: check returns what to do about a value, or an empty
// string.
func checked[F any](k rule[F], check func(F) string) rule[F] {
	read := k.read
	k.read = func(r *reader, path string, v value) (F, bool) {
		f, ok := read(r, path, v)
		if !ok {
			return f, false
		}
		if message := check(f); message != "" {
			r.fault(path, message)
		}
		return f, true
	}
	return k
}

// oneOf returns a rule for a string out of choices.
func oneOf[F ~string](choices ...F) rule[F] {
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = string(c)
	}
	return rule[F]{
		schema: &schema{Type: "string", Enum: names},
		read: func(r *reader, path string, v value) (F, bool) {
			if !want(r, path, v, isString) {
				return "", false
			}
			if !slices.Contains(names, v.text) {
				r.fault(path, "must be one of "+strings.Join(names, ", ")+", not "+quote(v.text))
				return "", false
			}
			return F(v.text), true
		},
		write: func(_ writer, f F) (value, bool) {
			return value{kind: isString, text: string(f)}, f != ""
		},
	}
}

var credential = rule[Secret]{
	schema: &schema{Type: "string", MinLength: 1},
	read: func(r *reader, path string, v value) (Secret, bool) {
		s, ok := word.read(r, path, v)
		return Secret{s}, ok
	},
	write: func(w writer, s Secret) (value, bool) {
		return value{kind: isString, text: w.secret(s.value)}, !s.Empty()
	},
}

// credentialObject is a credential that is written as an object.
var credentialObject = rule[Secret]{
	schema: &schema{Type: "object", MinProperties: 1},
	read: func(r *reader, path string, v value) (Secret, bool) {
		if !want(r, path, v, isObject) {
			return Secret{}, false
		}
		if len(v.members) == 0 {
			r.fault(path, "must not be empty; use the complete service account")
		}
		return Secret{string(v.raw)}, true
	},
	write: func(w writer, s Secret) (value, bool) {
		if s.Empty() {
			return value{}, false
		}
		var ignored faults
		v, _ := decode([]byte(s.value), &ignored)
		if w.reveal {
			return v, true
		}
		return value{kind: isString, text: fingerprint(canonicalText(v))}, true
	},
}

var truth = rule[bool]{
	schema: &schema{Type: "boolean"},
	read: func(r *reader, path string, v value) (bool, bool) {
		return v.text == "true", want(r, path, v, isBool)
	},
	write: func(_ writer, b bool) (value, bool) { return boolean(b), b },
}

func boolean(b bool) value { return value{kind: isBool, text: strconv.FormatBool(b)} }

// optional distinguishes a value that is not set from zero.
func optional[F any](k rule[F], given func(F) value) rule[*F] {
	return rule[*F]{
		schema: k.schema,
		read: func(r *reader, path string, v value) (*F, bool) {
			f, ok := k.read(r, path, v)
			return &f, ok
		},
		write: func(_ writer, f *F) (value, bool) {
			if f == nil {
				return value{}, false
			}
			return given(*f), true
		},
	}
}

// number returns a rule for a finite number of at least least.
func number(least float64) rule[float64] {
	k := rule[float64]{
		schema: &schema{Type: "number"},
		read: func(r *reader, path string, v value) (float64, bool) {
			if !want(r, path, v, isNumber) {
				return 0, false
			}
			f, err := strconv.ParseFloat(v.text, 64)
			if err != nil {
				r.fault(path, "is too large; use a smaller number")
				return 0, false
			}
			if f < least {
				r.fault(path, fmt.Sprintf("must be at least %v, not %v", plain(least), plain(f)))
			}
			return f, true
		},
		write: func(_ writer, f float64) (value, bool) { return decimal(f), f != 0 },
	}
	if !math.IsInf(least, -1) {
		k.schema.Minimum = &least
	}
	return k
}

// lowest is a bound for all finite numbers.
var lowest = math.Inf(-1)

func decimal(f float64) value { return value{kind: isNumber, text: plain(f)} }

func plain(f float64) string { return canonicalNumber(strconv.FormatFloat(f, 'g', -1, 64)) }

// integer returns a rule for an integer between least and most. 5.0 and 5e0 are
// integers.
func integer(least, most int) rule[int] {
	low, high := float64(least), float64(most)
	d := &schema{Type: "integer", Minimum: &low}
	if most < math.MaxInt32 {
		d.Maximum = &high
	}
	return rule[int]{
		schema: d,
		read: func(r *reader, path string, v value) (int, bool) {
			if v.kind != isNumber {
				r.fault(path, "must be an integer, not "+string(v.kind))
				return 0, false
			}
			n, err := strconv.Atoi(canonicalNumber(v.text))
			switch {
			case err != nil && !isIntegerLiteral(v.text):
				r.fault(path, "must be an integer, not "+shorten(v.text))
				return 0, false
			case err != nil && v.text[0] == '-':
				r.fault(path, fmt.Sprintf("must be at least %d", least))
				return 0, false
			case err != nil || n > most:
				r.fault(path, fmt.Sprintf("must be at most %d", most))
				return 0, false
			case n < least:
				r.fault(path, fmt.Sprintf("must be at least %d, not %d", least, n))
			}
			return n, true
		},
		write: func(_ writer, n int) (value, bool) { return count(n), n != 0 },
	}
}

func count(n int) value { return value{kind: isNumber, text: strconv.Itoa(n)} }

// isIntegerLiteral reports whether a number literal has no fraction.
func isIntegerLiteral(literal string) bool {
	s := canonicalNumber(literal)
	return !strings.Contains(s, ".") && !strings.Contains(s, "e-")
}

// duration returns a rule for a duration written as an integer of unit.
func duration(unit time.Duration, least int) rule[time.Duration] {
	n := integer(least, int(math.MaxInt64/int64(unit)))
	return rule[time.Duration]{
		schema: n.schema,
		read: func(r *reader, path string, v value) (time.Duration, bool) {
			i, ok := n.read(r, path, v)
			return time.Duration(i) * unit, ok
		},
		write: func(w writer, d time.Duration) (value, bool) { return n.write(w, int(d/unit)) },
	}
}

// listOf returns a rule for an array with items of rule k. A list that is set
// to empty is not nil.
func listOf[F any](k rule[F]) rule[[]F] {
	return rule[[]F]{
		schema: &schema{Type: "array", Items: k.schema},
		read: func(r *reader, path string, v value) ([]F, bool) {
			if !want(r, path, v, isArray) {
				return nil, false
			}
			list := make([]F, 0, len(v.items))
			for i, one := range v.items {
				if f, ok := k.read(r, item(path, i), one); ok {
					list = append(list, f)
				}
			}
			return list, true
		},
		write: func(w writer, list []F) (value, bool) {
			v := value{kind: isArray}
			for _, f := range list {
				written, _ := k.write(w, f)
				v.items = append(v.items, written)
			}
			return v, list != nil
		},
	}
}

// statuses is a list of HTTP statuses; their order has no meaning.
var statuses = func() rule[[]int] {
	k := listOf(integer(100, 999))
	write := k.write
	k.write = func(w writer, codes []int) (value, bool) {
		if codes == nil {
			return value{}, false
		}
		sorted := append([]int{}, codes...)
		slices.Sort(sorted)
		return write(w, slices.Compact(sorted))
	}
	return k
}()

// freeForm is an object whose content is not interpreted.
var freeForm = rule[Object]{
	schema: &schema{Type: "object"},
	read: func(r *reader, path string, v value) (Object, bool) {
		return v.object(), want(r, path, v, isObject)
	},
	write: func(_ writer, o Object) (value, bool) { return o.value(), o != nil },
}

func (v value) object() Object {
	o := make(Object, len(v.members))
	for i, m := range v.members {
		o[i] = Member{m.name, m.value.raw}
	}
	return o
}

func (o Object) value() value {
	v := value{kind: isObject}
	for _, m := range o {
		var ignored faults
		inner, _ := decode(m.Value, &ignored)
		v.members = append(v.members, member{m.Name, inner})
	}
	return v
}

// one returns a rule for an object of shape s.
func one[T any](s *shape[T]) rule[T] {
	return rule[T]{
		schema: s.schema(),
		read: func(r *reader, path string, v value) (T, bool) {
			var t T
			s.read(r, path, v, &t)
			return t, v.kind == isObject
		},
		write: func(w writer, t T) (value, bool) { return s.write(w, &t), true },
	}
}

// maybe returns a rule for an object of shape s that may be absent.
func maybe[T any](s *shape[T]) rule[*T] {
	k := one(s)
	return rule[*T]{
		schema: k.schema,
		read: func(r *reader, path string, v value) (*T, bool) {
			t, ok := k.read(r, path, v)
			return &t, ok
		},
		write: func(w writer, t *T) (value, bool) {
			if t == nil {
				return value{}, false
			}
			return s.write(w, t), true
		},
	}
}
