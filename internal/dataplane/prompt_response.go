package dataplane

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// showRendered writes the rendered prompt. It costs nothing.
func (p *Plane) showRendered(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("success")
	b.Bool(true)
	b.Name("data")
	b.Raw(x.admission.request.Received.Body.Bytes())
	b.Close('}')
	w.Header()["Content-Type"] = jsonType
	x.setGatewayHeaders(w.Header())
	x.writeBytes(w, r, &exchange.Response{Status: http.StatusOK, Bytes: b.Bytes()})
	return nil
}

// envelop wraps the response of a saved prompt in the format of its route:
// status, headers and body, and the members of the body next to them, so that
// clients of either format can read it.
func (p *Plane) envelop(h http.Header, x *roundTrip, res *exchange.Response) {
	if x.admission.route.prompt == "" || x.admission.request.Stream || res.Bytes == nil || res.Status >= 300 {
		return
	}
	var body jsonedit.Doc
	if body.Scan(res.Bytes) != nil {
		return
	}
	h["Content-Type"] = jsonType
	b := jsonedit.Append(make([]byte, 0, 2*len(res.Bytes)+1024))
	b.Open('{')
	b.Name("status")
	b.String("success")
	b.Name("headers")
	writeHeaders(&b, h)
	b.Name("body")
	b.Raw(res.Bytes)
	if !p.PromptEnvelopeOnly {
		for key, v := range body.Members() {
			if name := key.String(); name != "status" && name != "headers" && name != "body" {
				b.Key(name)
				b.Raw(v.Raw())
			}
		}
	}
	b.Close('}')
	res.Bytes = b.Bytes()
}

func writeHeaders(b *jsonedit.Builder, h http.Header) {
	names := make([]string, 0, len(h))
	for name := range h {
		if name != "Content-Length" { // it would be the envelope's
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b.Open('{')
	for _, name := range names {
		b.Key(strings.ToLower(name))
		b.String(strings.Join(h[name], ", "))
	}
	b.Close('}')
}
