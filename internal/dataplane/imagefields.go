package dataplane

import (
	"sync"

	"modelgate/internal/modelnames"
)

// imageFields finds the fields of a form that decide the price of an image, while the
// form passes. It refuses nothing. It is safe for concurrent use.
type imageFields struct {
	mu      sync.Mutex
	form    *modelnames.Multipart // guarded by mu, as are the fields below; nil without a form
	unclear bool                  // parsers may read the form differently
	found   map[string]string
}

func newImageFields(contentType string) *imageFields {
	f := &imageFields{found: make(map[string]string, 2)}
	f.form, _ = modelnames.NewMultipart(contentType, func(string) error { return nil })
	if f.form != nil {
		f.form.Field = f.add
	}
	return f
}

// add adds a field. Of two with one name, providers may read either.
func (f *imageFields) add(name, text string) {
	if name != "quality" && name != "size" {
		return
	}
	before, twice := f.found[name]
	f.unclear = f.unclear || twice && before != text
	f.found[name] = text
}

// write reads the next bytes of the body. It does nothing for nil.
func (f *imageFields) write(p []byte) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.form == nil || f.unclear {
		return
	}
	_, err := f.form.Write(p)
	f.unclear = f.unclear || err != nil
}

// get returns the quality and the size that the form asks for, and false if they are not
// certain because the form has not passed completely.
func (f *imageFields) get() (quality, size string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.form == nil || f.unclear || f.form.Close() != nil {
		return "", "", false
	}
	return f.found["quality"], f.found["size"], true
}
