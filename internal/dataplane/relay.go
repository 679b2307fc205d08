package dataplane

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// maxRealtimeMessage is the limit of a message of a relayed connection in bytes. The vendors
// accept 15 MB of audio.
const maxRealtimeMessage = 16 << 20

// serveRelay joins the connection of a client with one to its provider. Errors before that are
// responses to the handshake, those of the provider too.
func (c *connection) serveRelay(w http.ResponseWriter, r *http.Request) error {
	p, x := c.plane, c.round
	if err := c.prepareRelay(r); err != nil {
		return p.earlierLimit(r.Context(), &x.admission, err)
	}
	upgraded, conn, err := c.dial(r.Context())
	if err != nil {
		return p.earlierLimit(r.Context(), &x.admission, err)
	}
	defer upgraded.Close()
	if conn == nil {
		return p.write(w, r, x, upgraded)
	}
	x.setGatewayHeaders(w.Header())
	if call := x.admission.call; call != nil && call.Follow != nil {
		c.follow(r.Context(), conn, upgraded)
		return nil
	}
	result, err := p.Sockets.Relay(w, r, c.relay(conn, upgraded))
	if err != nil {
		conn.Close()
		if !socket.IsAnswered(err) {
			return err
		}
	}
	x.endRelay(upgraded, &result, c.joined != nil && c.joined.Metered)
	return nil
}

// prepareRelay finds the target of a connection, as for a request that passes through.
func (c *connection) prepareRelay(r *http.Request) error {
	p, x, a := c.plane, c.round, &c.round.admission
	if err := p.enterGate(r, a); err != nil {
		return err
	}
	if err := c.findCall(r.Context()); err != nil {
		return err
	}
	if err := c.takeSocketModel(); err != nil {
		return err
	}
	if !a.opts.namesTarget() {
		if err := x.targets.chooseProvider(); err != nil {
			return err
		}
	}
	a.request.Limiting.Policies, a.request.Limiting.Facts = a.snap.Policies, a.facts()
	a.findFurtherModels()
	var err error
	if a.request.Routing, err = x.targets.handler(); err != nil {
		return err
	}
	if err := c.checkCall(); err != nil {
		return err
	}
	if err := checkUnguarded(p, a); err != nil {
		return err
	}
	a.reportIgnored()
	return nil
}

// checkUnguarded returns an error if guardrails apply to a session or a call, which they cannot
// check.
func checkUnguarded(p *Plane, a *admission) error {
	if p.SkipGuardrails || !slices.ContainsFunc(a.request.Leaves, func(l exchange.Leaf) bool { return l.Guards != nil }) {
		return nil
	}
	return apierr.New(apierr.Forbidden, "guardrails apply to this request, which cannot check a session; send requests over HTTP, or use a config without them").
		WithCode("guardrails_unsupported")
}

// takeSocketModel reads the model in the query. The prefix with the provider is not sent.
func (c *connection) takeSocketModel() error {
	a := &c.round.admission
	values, err := url.ParseQuery(a.request.Received.Query)
	if err != nil {
		return apierr.New(apierr.Invalid, "the query is not valid; encode its values").WithParam("query")
	}
	switch models := values["model"]; {
	case len(models) > 1:
		return apierr.New(apierr.Invalid, "the query names several models; name one").WithParam("model")
	case len(models) == 1:
		a.request.Model, a.request.Received.RequestedModel, a.entry.Model = models[0], models[0], truncate(models[0])
	}
	if call := a.call; call != nil && call.Follow != nil {
		a.request.Model, a.entry.Model = call.Follow.Model, truncate(call.Follow.Model)
	}
	if a.opts.namesTarget() {
		return nil
	}
	sent := a.request.Model
	a.splitModel()
	if a.request.Model != sent {
		a.request.Received.Query = replaceModel(a.request.Received.Query, a.request.Model)
	}
	return nil
}

// replaceModel replaces the model in a query, which names one.
func replaceModel(query, model string) string { return replaceParameter(query, "model", model) }

// replaceParameter replaces the value of a parameter of a query.
func replaceParameter(query, name, value string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		sent, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(sent); err == nil && plain == name {
			parts[i] = name + "=" + url.QueryEscape(value)
		}
	}
	return strings.Join(parts, "&")
}

// errNoUpgrade is the error of a handshake that the provider answers with a response.
var errNoUpgrade = errors.New("the provider does not change the protocol")

// dial opens the connection to the provider, by the attempts that the config of the
// request allows. Without a connection the response is the provider's, an error.
func (c *connection) dial(ctx context.Context) (*exchange.Response, *socket.Provider, error) {
	p, x, a := c.plane, c.round, &c.round.admission
	var res *exchange.Response
	conn, err := socket.Dial(ctx, c.offered, func(h http.Header) (*http.Response, error) {
		request := a.request
		request.Upgrade = h
		var err error
		if res, err = pipeline.Serve(ctx, p.Engine.Quota, &request, &x.trail); err != nil {
			return nil, err
		}
		if res.Session == nil {
			return nil, errNoUpgrade
		}
		raw := *res.Raw // whose body Dial takes
		return &raw, nil
	})
	switch {
	case err == nil, errors.Is(err, errNoUpgrade) && res != nil && res.Status >= 300:
		return res, conn, nil
	case res != nil:
		res.Close()
	}
	if errors.Is(err, errNoUpgrade) {
		err = apierr.New(apierr.UpstreamFailed, "the provider answers the WebSocket handshake with status %d", res.Status).
			WithCode("upstream_unreadable")
	}
	return nil, nil, err
}

// relay returns what the connections do.
func (c *connection) relay(conn *socket.Provider, upgraded *exchange.Response) socket.Relay {
	x, a := c.round, &c.round.admission
	protocols := c.offered
	if chosen := conn.Subprotocol(); chosen != "" {
		protocols = []string{chosen}
	}
	begin, end := upgraded.Session.BeginTurn, func(t socket.Turn) error { return x.endTurn(upgraded, t) }
	if c.joined != nil && c.joined.Metered { // by another connection
		begin, end = func() error { return nil }, func(socket.Turn) error { return nil }
	}
	return socket.Relay{
		Provider: conn, Protocol: a.route.socket.protocol(), Subprotocols: protocols, Fixed: c.fixed,
		Check:     func() error { return c.check() },
		BeginTurn: begin, EndTurn: end,
		AllowModel: c.allowSocketModel(upgraded.Attempt.Target),
		Memory:     a.request.Memory, MaxMessage: maxRealtimeMessage,
	}
}

// endTurn settles a turn of a session.
func (x *roundTrip) endTurn(upgraded *exchange.Response, t socket.Turn) error {
	x.entry.Usage = addUsage(x.entry.Usage, t.Usage)
	if t.Model != "" && !t.Other {
		x.entry.ResponseModel = truncate(t.Model)
	}
	return upgraded.Session.EndTurn(exchange.Turn{Usage: t.Usage, Model: t.Model, Other: t.Other})
}

// addUsage returns the sum of the usage of turns.
func addUsage(a, b llm.Usage) llm.Usage {
	a.Input, a.CachedInput = a.Input+b.Input, a.CachedInput+b.CachedInput
	a.InputAudio, a.InputImage = a.InputAudio+b.InputAudio, a.InputImage+b.InputImage
	a.Output, a.OutputAudio, a.Reasoning = a.Output+b.Output, a.OutputAudio+b.OutputAudio, a.Reasoning+b.Reasoning
	a.Known, a.Estimated = a.Known || b.Known, a.Estimated || b.Estimated
	return a
}

// allowSocketModel returns the function that checks a model which the client names during a
// session.
func (c *connection) allowSocketModel(t *provider.Target) func(model string) error {
	a := &c.round.admission
	limited := a.request.Limiting.Policies.ReadsModels(a.request.Limiting.Facts)
	return func(model string) error {
		switch {
		case model == a.request.Model:
			return nil
		case c.fixedModel:
			return apierr.New(apierr.Forbidden, "the client secret of this session is for the model %.100q", a.request.Model).
				WithParam("session.model").WithCode("session_field_fixed")
		case limited && a.request.Model != "":
			return modelUnknown("the session names another model than its address")
		}
		return t.CheckModel(model)
	}
}

// endRelay records a session that has ended.
// counted is true if another connection counts what it used.
func (x *roundTrip) endRelay(upgraded *exchange.Response, result *socket.Result, counted bool) {
	x.headWritten, x.complete = true, true
	e := &x.entry
	e.Status, e.ResponseBytes, e.Stream = http.StatusSwitchingProtocols, result.Bytes, true
	if t := result.Unfinished; t.Usage.Known && !counted {
		e.Usage = addUsage(e.Usage, t.Usage)
		upgraded.Session.Abandon(exchange.Turn{Usage: t.Usage, Model: t.Model})
	}
	if result.Err != nil {
		fault := apierr.From(result.Err)
		e.ErrorSource, e.ErrorCode, e.ErrorMessage = "gateway", fault.CodeOrDefault(), truncate(fault.Message)
	}
}

// protocol returns what the messages of a connection mean.
func (k socketKind) protocol() socket.Protocol {
	switch k {
	case socketRealtime:
		return socket.Realtime
	case socketLive:
		return socket.Live
	}
	return socket.Opaque
}

// keyProtocol begins the name of a sub-protocol that is a key: browsers cannot set headers.
const keyProtocol = "openai-insecure-api-key."

// useSubprotocols reads the sub-protocols that a client offers. A key among them takes the place
// of the Authorization header, and is never sent to the client again. Headers that are about the
// connection are removed. An error is that of a client secret.
func (c *connection) useSubprotocols() error {
	a := &c.round.admission
	h := a.request.Received.Header.Clone()
	for _, line := range h["Sec-Websocket-Protocol"] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			key, isKey := strings.CutPrefix(name, keyProtocol)
			switch {
			case isKey && h["Authorization"] == nil:
				h["Authorization"] = []string{"Bearer " + key}
			case isToken(name) && !strings.HasPrefix(name, "openai-"):
				c.offered = append(c.offered, name)
			}
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "Sec-Websocket-") {
			delete(h, name)
		}
	}
	delete(h, "Origin")
	a.request.Received.Header = h
	return c.useClientSecret(h)
}

// isToken reports whether text may be the name of a sub-protocol.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7F || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return text != "" && len(text) <= maxWord
}

// live is the path of the live protocol of gemini.
// https://ai.google.dev/api/live
const live = "/ws/google.ai.generativelanguage."

// geminiLive are the providers of the live protocol.
var geminiLive = vendorAPI{api.Generate, api.DialectGemini}
