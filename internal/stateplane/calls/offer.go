package calls

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/kept"
)

// offer is a request for a call: an offer of media, and a session.
type offer struct {
	body     []byte
	query    string
	model    string // without the provider; empty if none is named
	provider string // "@" and the slug before the model; empty if there is none
}

// maxOffer limits the body of a request for a call in bytes. Offers have a few thousand.
const maxOffer = 256 << 10

// readOffer reads a request for a call: the offer alone with the model in the query, or a form
// with the session, which names the model.
func readOffer(q *kept.Request) (*offer, error) {
	body, err := readAll(q.HTTP.Body, maxOffer)
	if err != nil {
		return nil, err
	}
	o := &offer{body: body, query: q.From.Query}
	if values, err := url.ParseQuery(q.From.Query); err != nil {
		return nil, apierr.New(apierr.Invalid, "the query is not valid; encode its values").WithParam("query")
	} else if len(values["model"]) > 1 {
		return nil, apierr.New(apierr.Invalid, "the query names several models; name one").WithParam("model")
	} else {
		o.takeModel(values.Get("model"))
	}
	if o.model != "" && o.provider != "" {
		values, _ := url.ParseQuery(q.From.Query)
		values.Set("model", o.model)
		o.query = values.Encode()
	}
	media, params, err := mime.ParseMediaType(q.HTTP.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return o, nil
	}
	return o, o.readForm(params["boundary"])
}

// takeModel divides a model into the provider before it and its name.
func (o *offer) takeModel(model string) {
	if slug, bare, ok := strings.Cut(model, "/"); ok && strings.HasPrefix(slug, "@") && len(slug) > 1 {
		o.provider, model = slug, bare
	}
	o.model = model
}

// readForm reads the session of a form. The data plane checks the form itself, and which models
// it names. The provider before the model is taken out of it.
func (o *offer) readForm(boundary string) error {
	form := multipart.NewReader(bytes.NewReader(o.body), boundary)
	for {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return apierr.New(apierr.Invalid, "the form is not valid; send multipart/form-data with sdp and session").WithCause(err)
		}
		if part.FormName() != "session" {
			continue
		}
		session, err := io.ReadAll(part)
		if err != nil {
			return apierr.New(apierr.Invalid, "the form is incomplete; send it again").WithCode("body_incomplete").WithCause(err)
		}
		var doc jsonedit.Doc
		if err := doc.Scan(session); err != nil {
			return apierr.New(apierr.Invalid, "session is not a JSON object: %v", err).WithParam("session")
		}
		v, _ := doc.Find("model")
		model, _ := v.Text()
		if model == "" {
			continue
		}
		if o.takeModel(model); o.provider == "" {
			continue
		}
		edited := doc.Apply(nil, jsonedit.Edit{Name: "model", Value: jsonedit.AppendString(nil, o.model)})
		o.body = bytes.Replace(o.body, session, edited, 1)
	}
}

// request returns the request for a call as one to a managed provider.
func (o *offer) request(q *kept.Request, provider string) *http.Request {
	r := q.Forwarded(provider)
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if r.RequestURI = path; o.query != "" {
		r.RequestURI += "?" + o.query
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(o.body)), int64(len(o.body))
	return r
}
