package server

import (
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"

	"modelgate/internal/store/publication"
)

// stateShape is the shape of the state in this build.
var stateShape = shapeOf(reflect.TypeFor[publication.State]())

// shapeOf returns a hash of the names and types of all fields that a value of the type can
// contain. Gob skips the fields that a reader does not know: with the copy of another
// version, a limit or a restriction could be missing without an error.
func shapeOf(t reflect.Type) string {
	h := sha256.New()
	writeShape(h, t, make(map[reflect.Type]bool))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func writeShape(h hash.Hash, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(h, "%s %s;", t.Kind(), t)
	if seen[t] || reflect.PointerTo(t).Implements(reflect.TypeFor[gob.GobDecoder]()) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() {
				fmt.Fprintf(h, "%s ", f.Name)
				writeShape(h, f.Type, seen)
			}
		}
	case reflect.Map:
		writeShape(h, t.Key(), seen)
		writeShape(h, t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		writeShape(h, t.Elem(), seen)
	}
}
