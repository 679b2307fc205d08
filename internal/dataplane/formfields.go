package dataplane

import (
	"sync"
	"unicode/utf8"

	"modelgate/internal/model/modelnames"
	"modelgate/internal/pipeline/exchange"
)

// formFields finds the fields of a form that decide its price while the form passes. It
// refuses nothing. It is safe for concurrent use.
type formFields struct {
	mu      sync.Mutex
	form    *modelnames.Multipart // guarded by mu, as are the fields below; nil without a form
	unclear bool                  // parsers may read the form differently
	found   map[string]string
}

func newFormFields(contentType string) *formFields {
	f := &formFields{found: make(map[string]string, 3)}
	f.form, _ = modelnames.NewMultipart(contentType, func(model string) error {
		if len(model) <= maxWord && utf8.ValidString(model) {
			f.add("model", model)
		}
		return nil
	})
	if f.form != nil {
		f.form.Field = f.add
	}
	return f
}

// add adds a field. Of two with one name, providers may read either.
func (f *formFields) add(name, text string) {
	if name != "model" && name != "quality" && name != "size" {
		return
	}
	before, twice := f.found[name]
	f.unclear = f.unclear || twice && before != text
	f.found[name] = text
}

// write reads the next bytes of the body. It does nothing for nil.
func (f *formFields) write(p []byte) {
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

// get returns what has been found, nothing for nil.
func (f *formFields) get() exchange.FormFields {
	if f == nil {
		return exchange.FormFields{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	certain := f.form != nil && !f.unclear && f.form.Complete()
	return exchange.FormFields{Model: f.found["model"], Quality: f.found["quality"], Size: f.found["size"], Certain: certain}
}
