package peer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/upstream"
)

// Limits of calls, if the server has none.
const (
	defaultCallTimeout = 10 * time.Minute
	defaultIdleTimeout = time.Minute
)

// listenMethod begins a stream of the modern era, which has no total time.
const listenMethod = "subscriptions/listen"

// form is what a request over HTTP is for.
type form struct {
	method  string // of HTTP
	header  http.Header
	body    *message // nil for none
	url     *url.URL // nil is that of the server
	listens bool     // the stream ends when it ends, and may be silent
	foreign bool     // it is of another protocol: any JSON object is an answer, and so is each event
}

// timeouts returns the limits of a call.
func timeouts(s *toolserver.Server) upstream.Timeouts {
	idle, total := s.IdleTimeout, s.CallTimeout
	if idle <= 0 {
		idle = defaultIdleTimeout
	}
	if total <= 0 {
		total = defaultCallTimeout
	}
	return upstream.Timeouts{Header: idle, Idle: idle, Total: total}
}

// sendHTTP sends the message of a call by streamable HTTP.
func (p *Peers) sendHTTP(ctx context.Context, c *Call) (Reply, error) {
	f := form{method: http.MethodPost, header: postHeader(c), body: &message{bytes: c.Message}}
	r, err := p.exchange(ctx, c, f)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// exchange sends a request to the server of a call and returns the reply once its headers
// have arrived.
func (p *Peers) exchange(ctx context.Context, c *Call, f form) (*httpReply, error) {
	var text []byte
	if f.body != nil {
		text = f.body.bytes // which a failure releases
	}
	return withCredential(ctx, c, f.header, func(h http.Header) (*httpReply, error) {
		if f.header = h; f.body != nil {
			f.body = &message{bytes: text}
		}
		return p.sendForm(ctx, c, f)
	})
}

// withCredential sends a request with headers. A credential that the server refuses is renewed if
// it can be, and the request is sent again: the server has not processed it then. Errors of send
// are those of [Peers.Send].
func withCredential[R any](ctx context.Context, c *Call, h http.Header, send func(http.Header) (R, error)) (R, error) {
	var none R
	for tried := 0; ; tried++ {
		r, err := send(h)
		failure, failed := errors.AsType[*Failure](err)
		if !failed || failure.Kind != Unauthorized || c.Credential.Renew == nil || tried >= maxRenewals {
			return r, err
		}
		authorization, err := c.Credential.Renew(ctx, h.Get("Authorization"), failure, tried)
		if err != nil {
			renewal := &Failure{Kind: Unauthorized, Unsent: true, Status: failure.Status, Reason: failure.Reason, Err: err}
			if e, ok := errors.AsType[*apierr.Error](err); ok {
				renewal.Reason = e.Message
			}
			return none, renewal
		}
		if authorization == "" {
			return none, failure
		}
		h = maps.Clone(h)
		h["Authorization"] = []string{authorization}
	}
}

// maxRenewals is how often a credential is renewed for one request.
const maxRenewals = 2

// sendForm sends a request once. The server is not asked while its breaker is open.
func (p *Peers) sendForm(ctx context.Context, c *Call, f form) (*httpReply, error) {
	b := p.breakers.of(c.Server)
	if failure := b.allow(time.Now()); failure != nil {
		return nil, failure
	}
	r := p.newReply(ctx, c, f)
	failure := r.begin(f)
	if failure == nil {
		b.endProbe(time.Now())
		return r, nil
	}
	switch {
	case failure.Kind == Unreachable:
		b.report(false, failure, time.Now())
	case failure.Status != 0:
		b.report(true, nil, time.Now())
	default:
		b.release()
	}
	return nil, failure
}

// newReply returns the reply of a request that is about to be sent.
func (p *Peers) newReply(ctx context.Context, c *Call, f form) *httpReply {
	limits := timeouts(c.Server)
	if f.listens || c.Method == listenMethod {
		limits.Idle, limits.Total = 0, 0
	}
	r := &httpReply{peers: p, ctx: ctx, call: c, sent: f.body, listens: f.listens, foreign: f.foreign,
		watch: upstream.NewWatchdog(context.WithoutCancel(ctx), limits)}
	r.detach = context.AfterFunc(ctx, r.watch.Stop)
	if f.url == nil {
		f.url = c.Server.URL
	}
	r.req = (&http.Request{Method: f.method, URL: f.url, Header: f.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).
		WithContext(r.watch.Context())
	if f.body != nil {
		setBody(r.req, f.body)
	}
	if c.Session.Version != "" && !c.Notify && f.body != nil && c.Method != "initialize" {
		r.id = append(r.id, findID(c.Message)...)
	}
	return r
}

// begin sends the request and reads the headers of its response. After a failure, nothing of
// the reply is in use.
func (r *httpReply) begin(f form) *Failure {
	resp, err := r.peers.client.Do(r.req, r.call.Server.Guarded)
	if err != nil {
		failure := connectionFailure(r.ctx, r.req, err)
		if !failure.Unsent && stopped(failure) {
			r.peers.cancel(r.call, r.id)
		}
		r.abandon()
		return failure
	}
	r.watch.Pause()
	r.resp = resp
	if failure := r.accept(f); failure != nil {
		r.ended = failure
		r.Close()
		return failure
	}
	return nil
}

// abandon releases what a request without a response has in use.
func (r *httpReply) abandon() {
	r.detach()
	r.watch.Stop()
	if r.sent != nil {
		r.sent.release()
	}
}

// accept decides what a response is, by its status and its type.
func (r *httpReply) accept(f form) *Failure {
	c, status := r.call, r.resp.StatusCode
	if failure := statusFailure(r.resp, c.Session.ID != "" && !f.listens); failure != nil {
		if failure.Kind == SessionLost {
			r.peers.eras.forget(c.Server, c.Credential)
		}
		return failure
	}
	switch {
	case f.foreign:
		return r.acceptForeign()
	case status >= 400:
		return r.acceptError()
	}
	if status == http.StatusAccepted || status == http.StatusNoContent || c.Notify {
		if !c.Notify && f.method == http.MethodPost {
			return invalid(status, "the tool server accepted the request without a response", nil)
		}
		r.answered, r.unread, r.ended = true, true, io.EOF
		return nil
	}
	return r.setForm()
}

// acceptError reads the body of a response with a status of 4xx, which may be a message.
func (r *httpReply) acceptError() *Failure {
	r.watch.Phase(upstream.Idle)
	err := r.fill()
	r.watch.Pause()
	if err != nil {
		return connectionFailure(r.ctx, r.req, err)
	}
	if r.listens {
		return streamRefusal(r.resp.StatusCode, r.buffer.Bytes())
	}
	failure := refusal(r.resp.StatusCode, r.buffer.Bytes(), r.call.Session)
	if doubtsEra(r.call, failure, r.buffer.Bytes()) {
		r.peers.eras.forget(r.call.Server, r.call.Credential)
	}
	return failure
}

// doubtsEra reports whether a refused message shows that the server may speak another era
// than the message.
func doubtsEra(c *Call, failure *Failure, body []byte) bool {
	if failure != nil {
		return true
	}
	e, _ := parseEnvelope(body)
	code := codeOf(e)
	if c.Session.Version != "" {
		return code == codeVersionUnsupported
	}
	switch code {
	case codeHeaderMismatch, codeCapabilityMissing, jsonrpc.ParseError, jsonrpc.InvalidRequest, jsonrpc.MethodNotFound, jsonrpc.InvalidParams:
		return false
	}
	return true
}
