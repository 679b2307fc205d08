package config

import (
	"maps"
	"slices"
	"strings"
)

// A shape is an object with a list of properties. It is the single description
// from which text is read, the canonical form is written and the schema is
// built.
type shape[T any] struct {
	fields []field[T]
	// readUnlisted reads properties that are not listed; nil rejects them.
	readUnlisted func(r *reader, path string, m member, into *T)
	// writeUnlisted writes what readUnlisted read.
	writeUnlisted func(w writer, from *T) []member
	// refine adds to the schema what the fields alone cannot express.
	refine func(*schema)
	// advice says what to do about a property that is not listed.
	advice string

	spellings map[string]int // every accepted spelling → index in fields
	names     []string       // the spellings, sorted
}

// field is one property of an object: a row of a table.
type field[T any] struct {
	name      string // on the wire
	doc       string
	required  bool
	extension bool     // not in the specification
	also      []string // additional spellings, apart from camelCase
	schema    *schema

	secret      bool // its value is a credential
	object      bool // written as an object
	destination bool // decides where the credentials next to it are sent
	setting     bool // configures a provider, and is stored with a managed one

	read  func(r *reader, path string, v value, into *T)
	write func(w writer, from *T) (value, bool)
}

// newShape returns a shape with an index of the spellings of fields.
func newShape[T any](fields ...field[T]) *shape[T] {
	s := &shape[T]{fields: fields, spellings: map[string]int{}, advice: "remove it"}
	for i, f := range fields {
		for _, name := range append([]string{f.name}, f.also...) {
			s.spellings[name] = i
			s.spellings[camel(name)] = i
		}
	}
	s.names = slices.Sorted(maps.Keys(s.spellings))
	return s
}

// refined returns the shape with additions to its schema that the fields cannot
// express.
func (s *shape[T]) refined(by func(*schema)) *shape[T] {
	s.refine = by
	return s
}

// advised returns the shape with other advice about unlisted properties.
func (s *shape[T]) advised(advice string) *shape[T] {
	s.advice = advice
	return s
}

// camel returns the camelCase spelling of a wire name.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// reader reads a tree of nodes and collects its faults.
type reader struct {
	faults *faults
	nodes  *shape[Config]
	// broken are nodes with properties that could not be read, so that missing
	// properties are not reported.
	broken map[*Config]bool
	depth  int // of nested targets
	aside  int // number of faults that do not make the current node incomplete

	guesses int

	patterns     int // so far
	instructions int // of all patterns
	values       int // in the text
}

// maxGuesses limits the guessing of what unknown names were meant to be, for
// texts with a large number of them.
const maxGuesses = 20

// nearest calls Nearest for the first maxGuesses names.
func (r *reader) nearest(name string, known []string) string {
	r.guesses++
	if r.guesses > maxGuesses {
		return ""
	}
	return Nearest(name, known)
}

// fault adds a fault at path.
func (r *reader) fault(path, message string) { r.faults.add(path, message) }

// read reads v into into.
func (s *shape[T]) read(r *reader, path string, v value, into *T) {
	if v.kind != isObject {
		r.fault(path, "must be an object, not "+string(v.kind))
		return
	}
	given := make(map[int]string, len(v.members))
	for _, m := range v.members {
		at := property(path, m.name)
		i, known := s.spellings[m.name]
		if !known {
			s.unlisted(r, path, m, into)
			continue
		}
		if first, twice := given[i]; twice {
			r.fault(at, "is set twice, also as "+quote(first)+"; keep one spelling")
			continue
		}
		given[i] = m.name
		s.fields[i].read(r, at, m.value, into)
	}
	for i, f := range s.fields {
		if _, ok := given[i]; f.required && !ok {
			r.fault(property(path, f.name), "is required; add it ("+f.doc+")")
		}
	}
}

func (s *shape[T]) unlisted(r *reader, path string, m member, into *T) {
	if s.readUnlisted != nil {
		s.readUnlisted(r, path, m, into)
		return
	}
	at := property(path, m.name)
	like := OwnName(m.name)
	if _, own := s.spellings[like]; !own {
		like = r.nearest(m.name, s.names)
	}
	if like != "" {
		meant := s.fields[s.spellings[like]].name
		r.fault(at, "is not a property of the config; did you mean "+quote(meant)+"?")
		return
	}
	r.fault(at, "is not a property of the config; "+s.advice)
	r.aside++
}

// write writes from as read reads it.
func (s *shape[T]) write(w writer, from *T) value {
	v := value{kind: isObject}
	for _, f := range s.fields {
		if written, given := f.write(w, from); given {
			v.members = append(v.members, member{f.name, written})
		}
	}
	if s.writeUnlisted != nil {
		v.members = append(v.members, s.writeUnlisted(w, from)...)
	}
	return v
}

// Nearest returns the known name that name was probably meant to be: the first
// of those with the smallest edit distance, which must be at most a third of
// the name's length and at most three. It is empty if there is none, or if the
// name is longer than 64 bytes.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 1+min(3, (len(name)+1)/3)
	for _, k := range known {
		if d := len(k) - len(name); d > 3 || d < -3 {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
