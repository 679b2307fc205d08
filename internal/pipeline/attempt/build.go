package attempt

import (
	"maps"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/upstream"
)

// build returns the attempt's HTTP request. body is its body, retained once for
// the caller; nil if there is none or if it streams through.
func (p *plan) build() (req *http.Request, body *bytepool.Buffer, err error) {
	if err = p.prepareCall(); err != nil {
		return nil, nil, err
	}
	call := &p.call
	p.also = nil
	if body, err = p.body(); err == nil {
		err = p.findModelsOutsideBody()
	}
	if err != nil {
		return nil, body, err
	}
	req, err = provider.NewRequest(p.timers.context(), p.record.Target, call)
	for _, flag := range call.DroppedBetas {
		p.trail.Note(dialect.ParamChange{Name: "anthropic-beta", Outcome: dialect.Dropped, Note: flag})
	}
	for _, replaced := range call.Replaced {
		p.trail.Note(dialect.ParamChange{Name: strings.ToLower(replaced.Name), Outcome: dialect.Ignored,
			Note: dialect.NoteOption(replaced.Option)})
	}
	if err == nil && p.record.Target.Auth.Method != "" && p.handler.Engine.Signer != nil {
		err = p.sign(req, body)
	}
	return req, body, err
}

func (p *plan) sign(req *http.Request, body *bytepool.Buffer) error {
	if body == nil {
		return p.handler.Engine.Signer.Sign(p.timers.context(), p.record.Target, req, nil)
	}
	return p.handler.Engine.Signer.Sign(p.timers.context(), p.record.Target, req, body.Bytes())
}

// prepareCall sets the attempt's call, without its body.
func (p *plan) prepareCall() (err error) {
	r, call := p.request, &p.call
	if err := r.CheckPath(); err != nil {
		return err
	}
	*call = provider.Call{
		Operation:  p.wire.op,
		Method:     r.Received.Method,
		Path:       r.Received.Path,
		Query:      r.StripGatewayKey(r.Received.Query),
		EmptyQuery: r.Received.EmptyQuery,
		Model:      p.record.Model,
	}
	if _, elsewhere := p.record.Target.BodyRules[p.wire.op]; p.wire.translates() || elsewhere {
		call.Query = "" // it belongs to the client's protocol, at that protocol's vendor
	}
	if call.Header, err = p.header(); err != nil {
		return err
	}
	maps.Copy(call.Header, r.Upgrade)
	if p.parent != "" {
		upstream.Replace(call.Header, "Traceparent", []string{p.parent})
	}
	if !r.Stream && p.jobber() != nil {
		call.Header["Prefer"] = preferWait
	}
	return nil
}

// header returns the headers for the provider that come from the client: all of
// them on pass-through; on unified routes the content type, those of a protocol
// that both sides use, and the named ones.
func (p *plan) header() (http.Header, error) {
	h := make(http.Header, 8) // headers of a unified route
	if p.request.Operation == api.Proxy {
		upstream.CopyRequestHeader(h, p.request.Received.Header)
		upstream.DropFamilies(h, p.request.Received.HeaderPrefixes)
		p.record.Target.DropOtherVendorHeaders(h)
	} else {
		values := [...]string{p.handler.Engine.UserAgent, "application/json", "identity"}
		if p.request.Stream {
			values[1] = "text/event-stream"
		}
		h["User-Agent"], h["Accept"], h["Accept-Encoding"] = values[0:1:1], values[1:2:2], values[2:3:3]
		if ct, ok := p.request.Received.Header["Content-Type"]; ok {
			h["Content-Type"] = ct
		}
		if p.request.Operation == api.AudioSpeech {
			delete(h, "Accept")
		}
		for _, name := range p.request.Client.Headers() {
			if v, ok := p.request.Received.Header[name]; ok && !p.wire.translates() {
				h[name] = v
			}
		}
		if v, ok := p.request.Received.Header[exchange.BetaHeader]; ok && p.wire.dialect == api.DialectMessages {
			h[exchange.BetaHeader] = v // whatever the client's dialect, the flags are about the target's
		}
		if p.request.Operation == api.Models { // any provider may be asked
			p.record.Target.DropOtherVendorHeaders(h)
		}
	}
	p.dropKeys(h)
	if len(p.handler.Forward) > 0 {
		if err := upstream.Forward(h, p.request.Received.Header, p.handler.Forward); err != nil {
			return nil, err
		}
		if err := p.request.CheckForwardedHeaders(h, p.handler.Forward); err != nil {
			return nil, err
		}
	}
	for name, values := range p.request.Checking.Claims {
		upstream.Replace(h, name, values)
	}
	if p.request.Upgrade != nil && !strings.Contains(p.record.Target.Option("beta"), "realtime") {
		delete(h, openaiBeta)
	}
	p.noteLostBetas(h)
	return h, nil
}

// openaiBeta is the header with the beta flags of OpenAI. Sessions in the present realtime
// protocol are refused if it names the beta.
const openaiBeta = "Openai-Beta"

// noteLostBetas announces the client's beta flags whose header is not sent to the
// provider.
func (p *plan) noteLostBetas(h http.Header) {
	for _, name := range [...]string{exchange.BetaHeader, openaiBeta} {
		sent, ok := p.request.Received.Header[name]
		if !ok {
			continue
		}
		if _, sends := provider.HeaderKey(h, name); sends {
			continue
		}
		for flag := range strings.SplitSeq(strings.Join(sent, ","), ",") {
			if flag = strings.TrimSpace(flag); flag != "" {
				p.trail.Note(dialect.ParamChange{Name: strings.ToLower(name), Outcome: dialect.Dropped, Note: flag})
			}
		}
	}
}

// body sets the request's body in the call, with the target's edits if it is
// JSON.
func (p *plan) body() (*bytepool.Buffer, error) {
	call := &p.call
	if up := p.request.Received.Upload; up != nil {
		call.Body, call.Trailer = provider.Body{Source: uploads{up, p.request.Checking.Rows, p.timers.dog},
			Length: p.request.Received.Length}, up.Trailer
		return nil, nil
	}
	if p.request.Received.Body == nil {
		return nil, nil
	}
	buf, err := p.prepareBody(call.Header)
	if err != nil {
		return nil, err
	}
	call.Body = provider.Body{Source: buf, Length: int64(buf.Len()), Replayable: true}
	return buf, nil
}

// dropKeys deletes headers that contain a credential of the gateway, which a
// client put into a header of its own choice, and announces them.
func (p *plan) dropKeys(h http.Header) {
	for name, values := range h {
		if p.request.Received.HoldsKey(values) {
			delete(h, name)
			p.trail.Note(dialect.ParamChange{Name: strings.ToLower(name), Outcome: dialect.Dropped})
		}
	}
}
