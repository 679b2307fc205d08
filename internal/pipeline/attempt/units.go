package attempt

import (
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline/exchange"
)

// units returns what the attempt used that is not sold by tokens: images,
// recorded audio, and text to speak.
func (a *attempt) units() (u catalog.Units) {
	seen, doc := a.response.Tap.Info(), a.plan.sentDoc()
	switch a.plan.request.Operation {
	case api.Images, api.ImageEdits, api.ImageVariations:
		u.Images, u.Quality, u.Size = seen.Images, textOf(doc, "quality"), textOf(doc, "size")
		if f, ok := formFields(a.plan.request); ok {
			u.Quality, u.Size = f.Quality, f.Size
		}
	case api.AudioTranscriptions, api.AudioTranslations:
		u.AudioMillis = seen.AudioMillis
	case api.AudioSpeech:
		u.Characters = int64(utf8.RuneCountInString(textOf(doc, "input")))
	}
	return u
}

// hasUncertainImages reports whether the quality and the size of the images that a form
// asks for are unknown.
func hasUncertainImages(r *exchange.Request) bool {
	if r.Received.Doc != nil || r.Operation == api.Images {
		return false
	}
	f, _ := formFields(r)
	return !f.Certain
}

// formFields returns the fields of the request's form, and false if it has none.
func formFields(r *exchange.Request) (exchange.FormFields, bool) {
	up := r.Received.Upload
	if up == nil || up.Fields == nil {
		return exchange.FormFields{}, false
	}
	return up.Fields(), true
}

// pricedModel returns the model whose price counts. A form may name it after its file.
func (p *plan) pricedModel() string {
	if p.record.Model != "" {
		return p.record.Model
	}
	f, _ := formFields(p.request)
	return f.Model
}

// Bounds of what a request may use that its body does not say.
const (
	formImages     = 10  // images of a form
	recordingBytes = 750 // bytes of a second of recorded audio, at 6 kbit/s
)

// largestUnitCost returns the most that an attempt with the body doc can cost by units. It
// is false if its model has no price of them.
func (a *attemptAccount) largestUnitCost(doc *jsonedit.Doc) (catalog.NanoDollars, bool) {
	var u catalog.Units
	edits := false
	switch a.attempt.plan.request.Operation {
	case api.Images:
		u.Images, u.Quality, u.Size = fieldsOf[api.Images].responses(doc), textOf(doc, "quality"), textOf(doc, "size")
	case api.ImageEdits, api.ImageVariations:
		edits = true
	case api.AudioTranscriptions, api.AudioTranslations:
		u.AudioMillis = perUnit(a.sent.largestSize()*1000, recordingBytes)
	case api.AudioSpeech:
		u.Characters = int64(utf8.RuneCountInString(textOf(doc, "input")))
	}
	_, cost, known := a.price("", func(p *catalog.Price) (catalog.NanoDollars, bool) {
		if p.Units == nil {
			return 0, false
		}
		if edits {
			return p.Units.Dearest()*formImages + p.Request, true
		}
		cost, ok := p.UnitCost(u)
		return cost + p.Request, ok
	})
	return cost, known
}

// textOf returns a string of a JSON request, empty without one.
func textOf(doc *jsonedit.Doc, name string) string {
	if doc == nil {
		return ""
	}
	v, _ := doc.Find(name)
	s, _ := v.Text()
	return s
}

// unitCost returns the cost of the units that r used and the name of its price. It
// is false if its model has no price of units.
func (a *attemptAccount) unitCost(r *exchange.Response) (cost catalog.NanoDollars, row string, known bool) {
	u := a.attempt.units()
	p, cost, known := a.price(r.Tap.Info().Model, func(p *catalog.Price) (catalog.NanoDollars, bool) {
		switch {
		case p.Units == nil:
			return 0, false
		case u.Images > 0 && hasUncertainImages(a.attempt.plan.request):
			return p.Units.Dearest()*catalog.NanoDollars(min(u.Images, 1<<10)) + p.Request, true
		}
		cost, ok := p.UnitCost(u)
		return cost + p.Request, ok
	})
	if !known {
		return 0, "", false
	}
	return cost, p.Row(), true
}
