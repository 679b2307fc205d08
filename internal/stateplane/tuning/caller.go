package tuning

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorcall"
)

// caller sends requests to a managed provider as calls of the client.
type caller struct {
	ask      asker
	provider string // "@" and its slug
	trace    string
}

// Call implements [vendorcall.Caller].
func (c *caller) Call(ctx context.Context, in *vendorcall.Request) (*vendorcall.Response, error) {
	r, err := c.request(ctx, in)
	if err != nil {
		return nil, err
	}
	res := new(kept.Capture)
	result := c.ask(res, r, in.Service)
	if result.Broken || res.TooLong {
		return nil, apierr.New(apierr.UpstreamFailed, "the provider %.60s broke off its response: try again", c.provider).
			WithCode("upstream_incomplete")
	}
	return &vendorcall.Response{
		Status: res.Status, Header: res.Header(), Body: io.NopCloser(bytes.NewReader(res.Body)), Unsent: !result.Sent && !res.OK(),
	}, nil
}

// request returns a request to the gateway that passes through to the provider.
func (c *caller) request(ctx context.Context, in *vendorcall.Request) (*http.Request, error) {
	address := api.BasePath + in.Path
	if in.Query != "" {
		address += "?" + in.Query
	}
	body := in.Body
	if body == nil {
		body = http.NoBody
	}
	r, err := http.NewRequestWithContext(ctx, in.Method, address, body)
	if err != nil {
		return nil, err
	}
	r.RequestURI, r.ContentLength = address, in.Length
	maps.Copy(r.Header, in.Header)
	r.Header.Set(api.HeaderProvider, c.provider)
	if c.trace != "" {
		r.Header.Set(api.HeaderTraceID, c.trace)
	}
	return r, nil
}
