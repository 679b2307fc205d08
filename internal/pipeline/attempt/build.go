package attempt

import (
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
func (a *attempt) build() (req *http.Request, body *bytepool.Buffer, err error) {
	if err = a.prepareCall(); err != nil {
		return nil, nil, err
	}
	call := &a.call
	a.also = nil
	if body, err = a.body(); err == nil {
		err = a.findModelsOutsideBody()
	}
	if err != nil {
		return nil, body, err
	}
	req, err = provider.NewRequest(a.timers.context(), a.record.Target, call)
	for _, flag := range call.DroppedBetas {
		a.trail.Note(dialect.ParamChange{Name: "anthropic-beta", Outcome: dialect.Dropped, Note: flag})
	}
	for _, replaced := range call.Replaced {
		a.trail.Note(dialect.ParamChange{Name: strings.ToLower(replaced.Name), Outcome: dialect.Ignored,
			Note: dialect.NoteOption(replaced.Option)})
	}
	if err == nil && a.record.Target.Auth.Method != "" && a.handler.Engine.Signer != nil {
		err = a.sign(req, body)
	}
	return req, body, err
}

func (a *attempt) sign(req *http.Request, body *bytepool.Buffer) error {
	if body == nil {
		return a.handler.Engine.Signer.Sign(a.timers.context(), a.record.Target, req, nil)
	}
	return a.handler.Engine.Signer.Sign(a.timers.context(), a.record.Target, req, body.Bytes())
}

// prepareCall sets the attempt's call, without its body.
func (a *attempt) prepareCall() (err error) {
	r, call := a.request, &a.call
	if err := r.CheckPath(); err != nil {
		return err
	}
	*call = provider.Call{
		Operation:  a.wire.op,
		Method:     r.Received.Method,
		Path:       r.Received.Path,
		Query:      r.StripGatewayKey(r.Received.Query),
		EmptyQuery: r.Received.EmptyQuery,
		Model:      a.record.Model,
	}
	if _, elsewhere := a.record.Target.BodyRules[a.wire.op]; a.wire.translates() || elsewhere {
		call.Query = "" // it belongs to the client's protocol, at that protocol's vendor
	}
	if call.Header, err = a.header(); err != nil {
		return err
	}
	if a.parent != "" {
		upstream.Replace(call.Header, "Traceparent", []string{a.parent})
	}
	if !r.Stream && a.jobber() != nil {
		call.Header["Prefer"] = preferWait
	}
	return nil
}

// header returns the headers for the provider that come from the client: all of
// them on pass-through; on unified routes the content type, those of a protocol
// that both sides use, and the named ones.
func (a *attempt) header() (http.Header, error) {
	h := make(http.Header, 8) // headers of a unified route
	if a.request.Operation == api.Proxy {
		upstream.CopyRequestHeader(h, a.request.Received.Header)
		upstream.DropFamilies(h, a.request.Received.HeaderPrefixes)
		a.record.Target.DropOtherVendorHeaders(h)
	} else {
		values := [...]string{a.handler.Engine.UserAgent, "application/json", "identity"}
		if a.request.Stream {
			values[1] = "text/event-stream"
		}
		h["User-Agent"], h["Accept"], h["Accept-Encoding"] = values[0:1:1], values[1:2:2], values[2:3:3]
		if ct, ok := a.request.Received.Header["Content-Type"]; ok {
			h["Content-Type"] = ct
		}
		if a.request.Operation == api.AudioSpeech {
			delete(h, "Accept")
		}
		for _, name := range a.request.Client.Headers() {
			if v, ok := a.request.Received.Header[name]; ok && !a.wire.translates() {
				h[name] = v
			}
		}
		if v, ok := a.request.Received.Header[exchange.BetaHeader]; ok && a.wire.dialect == api.DialectMessages {
			h[exchange.BetaHeader] = v // whatever the client's dialect, the flags are about the target's
		}
		if a.request.Operation == api.Models { // any provider may be asked
			a.record.Target.DropOtherVendorHeaders(h)
		}
	}
	a.dropKeys(h)
	if len(a.handler.Forward) > 0 {
		if err := upstream.Forward(h, a.request.Received.Header, a.handler.Forward); err != nil {
			return nil, err
		}
		if err := a.request.CheckForwardedHeaders(h, a.handler.Forward); err != nil {
			return nil, err
		}
	}
	for name, values := range a.request.Checking.Claims {
		upstream.Replace(h, name, values)
	}
	a.noteLostBetas(h)
	return h, nil
}

// noteLostBetas announces the client's beta flags whose header is not sent to the
// provider.
func (a *attempt) noteLostBetas(h http.Header) {
	for _, name := range [...]string{exchange.BetaHeader, "Openai-Beta"} {
		sent, ok := a.request.Received.Header[name]
		if !ok {
			continue
		}
		if _, sends := provider.HeaderKey(h, name); sends {
			continue
		}
		for flag := range strings.SplitSeq(strings.Join(sent, ","), ",") {
			if flag = strings.TrimSpace(flag); flag != "" {
				a.trail.Note(dialect.ParamChange{Name: strings.ToLower(name), Outcome: dialect.Dropped, Note: flag})
			}
		}
	}
}

// body sets the request's body in the call, with the target's edits if it is
// JSON.
func (a *attempt) body() (*bytepool.Buffer, error) {
	call := &a.call
	if up := a.request.Received.Upload; up != nil {
		call.Body, call.Trailer = provider.Body{Source: uploads{up, a.request.Checking.Rows, a.timers.dog},
			Length: a.request.Received.Length}, up.Trailer
		return nil, nil
	}
	if a.request.Received.Body == nil {
		return nil, nil
	}
	buf, err := a.prepareBody(call.Header)
	if err != nil {
		return nil, err
	}
	call.Body = provider.Body{Source: buf, Length: int64(buf.Len()), Replayable: true}
	return buf, nil
}

// dropKeys deletes headers that contain a credential of the gateway, which a
// client put into a header of its own choice, and announces them.
func (a *attempt) dropKeys(h http.Header) {
	for name, values := range h {
		if a.request.Received.HoldsKey(values) {
			delete(h, name)
			a.trail.Note(dialect.ParamChange{Name: strings.ToLower(name), Outcome: dialect.Dropped})
		}
	}
}
