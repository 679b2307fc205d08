package peer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"modelgate/internal/provider/toolserver"
)

// ForeignCall is a request to a server of another protocol over HTTP, whose messages are JSON
// objects too.
type ForeignCall struct {
	Server     *toolserver.Server
	Credential Credential
	Method     string      // of HTTP
	URL        *url.URL    // on the host of the server
	Header     http.Header // added to those of the server and the credential, which it overrides
	Body       []byte      // nil for none; it must not change before the reply is closed
}

// ForeignReply is what a server of another protocol answers: a JSON object with any status
// below 500 that a caller can act on, or a stream of events. An empty body is none with a status below 300, and
// otherwise a failure.
type ForeignReply struct{ *httpReply }

// EventType returns the type of the event that Next returned last, empty for none.
func (r ForeignReply) EventType() string { return r.event }

// SendForeign sends a request to a server of another protocol. What holds for tool servers
// holds for it: the guard of its address, its breaker, its timeouts, and the limits of what is
// read. Every error is a *Failure.
func (p *Peers) SendForeign(ctx context.Context, c *ForeignCall) (ForeignReply, error) {
	call := &Call{Server: c.Server, Credential: c.Credential}
	h := baseHeader(call)
	maps.Copy(h, c.Header)
	f := form{method: c.Method, header: h, url: c.URL, foreign: true}
	if c.Body != nil {
		f.body = &message{bytes: c.Body}
	}
	r, err := p.exchange(ctx, call, f)
	return ForeignReply{r}, err
}

// acceptForeign decides what a response of another protocol is.
func (r *httpReply) acceptForeign() *Failure {
	status := r.resp.StatusCode
	empty := status == http.StatusAccepted || status == http.StatusNoContent || r.resp.ContentLength == 0
	if empty && status < http.StatusMultipleChoices {
		r.answered, r.unread, r.ended = true, true, io.EOF
		return nil
	}
	if empty {
		return invalid(status, fmt.Sprintf("the tool server responded with the status %d and without a body", status), nil)
	}
	failure := r.setForm()
	if failure != nil && status == http.StatusNotFound {
		failure.Reason = "the tool server serves nothing at its address (status 404)"
	}
	return failure
}
