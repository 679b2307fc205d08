package kept

import (
	"context"
	"io"
	"maps"
	"net/http"

	"modelgate/api"
)

// Outgoing is a request to the API of a managed provider, which the data plane serves as a
// call.
type Outgoing struct {
	Provider string // "@" and its slug
	TraceID  string // empty for one of its own

	Method string
	Path   string // below the provider's address, escaped
	Query  string // encoded; empty for none
	Header http.Header
	Body   io.Reader // nil for none
	Length int64     // of Body in bytes; -1 if unknown
}

// Request returns the request as one to the gateway that passes through.
func (o *Outgoing) Request(ctx context.Context) (*http.Request, error) {
	address := api.BasePath + o.Path
	if o.Query != "" {
		address += "?" + o.Query
	}
	body := o.Body
	if body == nil {
		body = http.NoBody
	}
	r, err := http.NewRequestWithContext(ctx, o.Method, address, body)
	if err != nil {
		return nil, err
	}
	if r.RequestURI = address; o.Length != 0 { // otherwise it is that of a body in memory
		r.ContentLength = o.Length
	}
	maps.Copy(r.Header, o.Header)
	r.Header.Set(api.HeaderProvider, o.Provider)
	if o.TraceID != "" {
		r.Header.Set(api.HeaderTraceID, o.TraceID)
	}
	return r, nil
}
