package dialect

import (
	"bytes"

	"modelgate/internal/format/jsonedit"
)

// MayContainMarkedSignature reports whether a body may hold a signature of another
// vendor, as [MarkSignature] writes it, or a string that begins with one of others. It costs
// a search.
func MayContainMarkedSignature(body []byte, others ...string) bool {
	return jsonedit.StringBegins(body, append(others[:len(others):len(others)], signatureMark)...)
}

// IsMarkedSignature reports whether text is a signature of another vendor in
// the form of [MarkSignature].
func IsMarkedSignature(text string) bool {
	return len(text) > len(signatureMark) && text[:len(signatureMark)] == signatureMark
}

// EditElements returns the edit that replaces each element of a list of the
// body with what place returns: the element's own bytes, other bytes, or nil to
// remove it. If within is not empty, the elements are those of the list with
// that name inside each element of list, and an element that loses all of them
// is removed too. Nothing changed means no edit. Implementations of
// ForeignContentCleaner use it.
func EditElements(body *jsonedit.Doc, list, within string, place func(jsonedit.Value) []byte) []jsonedit.Edit {
	v, _ := body.Find(list)
	if v.Kind() != jsonedit.Array {
		return nil
	}
	outer := place
	if within != "" {
		outer = func(e jsonedit.Value) []byte { return siftNested(e, within, place) }
	}
	sifted, changed := replaceElements(v, outer)
	if !changed {
		return nil
	}
	return []jsonedit.Edit{{Name: list, Value: sifted}}
}

// replaceElements returns the array with each element replaced by the result of place, as
// EditElements does.
func replaceElements(list jsonedit.Value, place func(jsonedit.Value) []byte) (out []byte, changed bool) {
	var b jsonedit.Builder
	b.Open('[')
	for e := range list.Elements() {
		raw := place(e)
		changed = changed || !bytes.Equal(raw, e.Raw())
		if raw != nil {
			b.Raw(raw)
		}
	}
	b.Close(']')
	return b.Bytes(), changed
}

// siftNested returns the element e with its list within sifted, nil if nothing of
// the list is left.
func siftNested(e jsonedit.Value, within string, place func(jsonedit.Value) []byte) []byte {
	list, _ := e.Get(within)
	sifted, changed := replaceElements(list, place)
	var d jsonedit.Doc
	switch {
	case !changed, d.Scan(e.Raw()) != nil:
		return e.Raw()
	case string(sifted) == "[]":
		return nil
	}
	return d.Apply(nil, jsonedit.Edit{Name: within, Value: sifted})
}
