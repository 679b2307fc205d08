package tuning

import (
	"bytes"
	"context"
	"io"

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
	if in.Link != "" {
		return nil, apierr.New(apierr.Unsupported, "requests about fine-tuning at the provider %.60s need its own addresses", c.provider)
	}
	out := kept.Outgoing{
		Provider: c.provider, TraceID: c.trace, Method: in.Method, Path: in.Path, Query: in.Query,
		Header: in.Header, Body: in.Body, Length: in.Length,
	}
	r, err := out.Request(ctx)
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
