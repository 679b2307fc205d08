package dialect

import (
	"bytes"

	"modelgate/internal/jsonedit"
)

// MayContainMarkedSignature reports whether a body may hold a signature of another vendor, as
// [MarkSignature] writes it. It costs a search.
func MayContainMarkedSignature(body []byte) bool {
	return bytes.Contains(body, []byte(`"`+signatureMark))
}

// IsMarkedSignature reports whether a text is a signature that stands instead of
// another vendor's.
func IsMarkedSignature(text string) bool {
	return len(text) > len(signatureMark) && text[:len(signatureMark)] == signatureMark
}

// EditElements returns the edit of a list of the body that replaces each of
// its elements with what place returns: the element's own bytes, others, or nil to
// leave it out. Where within is not empty the elements are those of the list of
// that name in each element, and what is left with none goes too. There is no
// edit when nothing changes. It is for Cleaners.
func EditElements(body *jsonedit.Doc, list, within string, place func(jsonedit.Value) []byte) []jsonedit.Edit {
	v, _ := body.Find(list)
	if v.Kind() != jsonedit.Array {
		return nil
	}
	outer := place
	if within != "" {
		outer = func(e jsonedit.Value) []byte { return siftWithin(e, within, place) }
	}
	sifted, changed := sift(v, outer)
	if !changed {
		return nil
	}
	return []jsonedit.Edit{{Name: list, Value: sifted}}
}

// sift returns an array with what place returns.
func sift(list jsonedit.Value, place func(jsonedit.Value) []byte) (out []byte, changed bool) {
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

func siftWithin(e jsonedit.Value, within string, place func(jsonedit.Value) []byte) []byte {
	list, _ := e.Get(within)
	sifted, changed := sift(list, place)
	var d jsonedit.Doc
	switch {
	case !changed, d.Scan(e.Raw()) != nil:
		return e.Raw()
	case string(sifted) == "[]":
		return nil
	}
	return d.Apply(nil, jsonedit.Edit{Name: within, Value: sifted})
}
