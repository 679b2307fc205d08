package dataplane

import (
	"mime"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/snapshot"
)

// codeNotEnabled is the control plane's word for what somebody may not do.
const codeNotEnabled = "AB03"

// judge refuses a model that a provider entry is not for. Where only some are
// enabled, a body that hides its model is refused too.
func (x *exchange) judge(e *snapshot.Entry, slug, model string) error {
	if !e.Limited() {
		return nil
	}
	if model == "" {
		var readable bool
		if model, readable = x.bodyModel(); !readable {
			return notEnabled("the provider entry @%s lets some models through alone, and the request's model can't be read before it is sent; "+
				"send JSON of at most %d bytes that is not compressed, or a form that begins with its model", slug, holdRaw)
		}
	}
	switch {
	case model == "" && x.silent(): // it names none, or the entry has a default
		return nil
	case model == "":
		return notEnabled("the provider entry @%s lets some models through alone, and the request names none; GET /v1/models lists them", slug)
	case e.Allows(model):
		return nil
	}
	return notEnabled("the model %.100q is not enabled for the provider entry @%s; GET /v1/models lists those that are", model, slug)
}

func notEnabled(format string, args ...any) error {
	return apierr.New(apierr.Forbidden, codeNotEnabled+": "+format, args...).WithParam("model").WithCode(codeNotEnabled)
}

// silent reports whether a request without a model is let through: it is no
// unified one that asks a model for something, or others judge that.
func (x *exchange) silent() bool {
	return x.Operation == api.Proxy || x.route.body == bodyNone || x.noModel != nil
}

// bodyModel returns the model that a streamed form names, and false for a body
// that may hold one that was not read.
func (x *exchange) bodyModel() (model string, readable bool) {
	if x.upload == nil {
		return "", x.Body == nil || x.Doc != nil
	}
	h := x.Header["Content-Type"]
	media := ""
	if len(h) == 1 {
		media, _, _ = mime.ParseMediaType(h[0])
	}
	switch {
	case len(x.Header["Content-Encoding"]) > 0:
		return "", false
	case media == "multipart/form-data":
		model = x.upload.peek()
		return model, model != "" || x.Operation == api.Proxy
	}
	return "", media != "application/json" && media != "" && x.Operation == api.Proxy
}
