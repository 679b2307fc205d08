package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// legacyVersions are the revisions of the legacy era that sessions may have, newest first.
var legacyVersions = []string{LegacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"}

// maxSessionID bounds the id of a session, which clients carry.
const maxSessionID = 1024

// initializedMessage ends the beginning of a session.
const initializedMessage = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// ownName describes the gateway to servers, in messages of its own.
const ownName = `{"name":"modelgate","version":"1"}`

// Open implements Sender.
func (p *Peers) Open(ctx context.Context, s *toolserver.Server, c Credential, by Client) (Session, []byte, error) {
	if failure := p.checkServer(s); failure != nil {
		return Session{}, nil, failure
	}
	switch s.Transport {
	case toolserver.SSE:
		return p.openStream(ctx, s, c, by)
	case toolserver.Stdio:
		return p.openProcess(ctx, s, c)
	case toolserver.OpenAPI:
		return Session{}, nil, invalid(0, "the tool server has no sessions", nil)
	}
	session, result, err := p.openHTTP(ctx, s, c, by)
	if err != nil {
		if f, ok := errors.AsType[*Failure](err); ok && f.Status >= 400 && f.Status < 500 {
			p.eras.forget(s, c)
		}
		return Session{}, nil, err
	}
	return session, result, nil
}

func (p *Peers) openHTTP(ctx context.Context, s *toolserver.Server, c Credential, by Client) (Session, []byte, error) {
	session, result, err := p.initialize(ctx, s, c, by, LegacyVersion)
	if older := offeredInstead(err); older != "" {
		session, result, err = p.initialize(ctx, s, c, by, older)
	}
	if err != nil {
		return Session{}, nil, err
	}
	ready := &Call{Server: s, Credential: c, Session: session, Notify: true, Method: "notifications/initialized",
		Message: []byte(initializedMessage)}
	reply, err := p.sendHTTP(ctx, ready)
	if err != nil {
		return Session{}, nil, err
	}
	reply.Close()
	return session, result, nil
}

// initialize sends initialize with a revision, and returns the session and the result.
func (p *Peers) initialize(ctx context.Context, s *toolserver.Server, c Credential, by Client, version string) (Session, []byte, error) {
	call := &Call{Server: s, Credential: c, Client: by, Session: Session{Version: version},
		Method: "initialize", Message: initializeMessage(by, version)}
	f := form{method: http.MethodPost, header: postHeader(call), body: &message{bytes: call.Message}}
	delete(f.header, versionHeader) // nothing is agreed yet
	reply, err := p.exchange(ctx, call, f)
	if err != nil {
		return Session{}, nil, err
	}
	defer reply.Close()
	result, err := readResult(reply)
	if err != nil {
		return Session{}, nil, err
	}
	session := Session{ID: reply.resp.Header.Get(sessionHeader), Version: textOf(findMember(result, "protocolVersion"))}
	if err := checkSession(session); err != nil {
		return Session{}, nil, err
	}
	return session, slices.Clone(result), nil
}

// initializeMessage returns the request that begins a session.
func initializeMessage(by Client, version string) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("id")
	b.Int(1)
	b.Name("method")
	b.String("initialize")
	b.Name("params")
	b.Open('{')
	b.Name("protocolVersion")
	b.String(version)
	b.Name("capabilities")
	b.Raw(orElse(by.Capabilities, "{}"))
	b.Name("clientInfo")
	b.Raw(orElse(by.Info, ownName))
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

func orElse(raw json.RawMessage, otherwise string) []byte {
	if len(raw) == 0 {
		return []byte(otherwise)
	}
	return raw
}

// checkSession returns an error for a session that a server may not begin.
func checkSession(s Session) error {
	if !slices.Contains(legacyVersions, s.Version) {
		return invalid(0, "the tool server answered initialize with an unknown revision of the protocol", nil)
	}
	if len(s.ID) > maxSessionID {
		return invalid(0, "the id of the session that the tool server began is too long", nil)
	}
	for i := range len(s.ID) {
		if s.ID[i] <= ' ' || s.ID[i] >= 0x7f {
			return invalid(0, "the id of the session that the tool server began has characters that are not allowed", nil)
		}
	}
	return nil
}

// serverError is an error of JSON-RPC that a server answered instead of a result.
type serverError struct {
	code int64
	data []byte // as sent; nil for none
}

func (e *serverError) Error() string { return "the server answered with an error of JSON-RPC" }

// readResult returns the result of a request that the gateway made itself. It is valid until
// the reply is closed.
func readResult(reply Reply) ([]byte, error) {
	for {
		text, err := reply.Next()
		if err == io.EOF {
			return nil, invalid(reply.Status(), "the tool server did not answer", nil)
		}
		if err != nil {
			return nil, err
		}
		e, ok := parseEnvelope(text)
		switch {
		case !ok:
			return nil, invalid(reply.Status(), "the answer of the tool server is not JSON-RPC", nil)
		case !e.isResponse():
			continue
		case has(e.failure):
			return nil, invalid(reply.Status(), "the tool server answered with an error",
				&serverError{codeOf(e), slices.Clone(findMember(e.failure, "data"))})
		}
		if _, err := jsonedit.ParseValue(e.result); err != nil || !isObject(e.result) {
			return nil, invalid(reply.Status(), "the answer of the tool server is not JSON-RPC", err)
		}
		return e.result, nil
	}
}

// offeredInstead returns the newest revision of the legacy era that a server names when it
// refuses another, and nothing for other errors.
func offeredInstead(err error) string {
	e, ok := errors.AsType[*serverError](err)
	if !ok {
		return ""
	}
	offered := textsOf(findMember(e.data, "supported"))
	for _, v := range legacyVersions[1:] {
		if slices.Contains(offered, v) {
			return v
		}
	}
	return ""
}

// textsOf returns the strings of a JSON array, up to 100.
func textsOf(raw []byte) (texts []string) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil || v.Kind() != jsonedit.Array {
		return nil
	}
	for element := range v.Elements() {
		if s, ok := element.Text(); ok && len(texts) < 100 {
			texts = append(texts, s)
		}
	}
	return texts
}

// Listen implements Sender.
func (p *Peers) Listen(ctx context.Context, c *Call) (Reply, error) {
	if failure := p.checkServer(c.Server); failure != nil {
		return nil, failure
	}
	if c.Server.Transport != toolserver.HTTP {
		m, lost := p.connectionOf(c.Server, c.Credential, c.Session)
		if lost != nil {
			return nil, lost
		}
		return m.listen(ctx, c)
	}
	if p.eras.isMute(c.Server, c.Credential, time.Now()) {
		return nil, muteFailure()
	}
	h := baseHeader(c)
	h["Accept"] = acceptStream
	setSession(h, c.Session)
	r, err := p.exchange(ctx, c, form{method: http.MethodGet, header: h, listens: true})
	if err != nil {
		if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusMethodNotAllowed {
			p.eras.setMute(c.Server, c.Credential, time.Now())
			return nil, muteFailure()
		}
		return nil, err
	}
	if r.events == nil {
		r.Close()
		return nil, invalid(r.Status(), "the response of the tool server is not a stream of events", nil)
	}
	return r, nil
}

// muteFailure returns the failure of a server that sends nothing by itself.
func muteFailure() *Failure {
	return invalid(http.StatusMethodNotAllowed, "the tool server has no stream of its own messages", nil)
}

// End implements Sender.
func (p *Peers) End(ctx context.Context, s *toolserver.Server, c Credential, of Session) error {
	if of.ID == "" {
		return nil
	}
	if failure := p.checkServer(s); failure != nil {
		return failure
	}
	if s.Transport != toolserver.HTTP {
		if m, _ := p.connectionOf(s, c, of); m != nil && !m.shared {
			m.end(sessionLost())
		}
		return nil
	}
	call := &Call{Server: s, Credential: c, Session: of, Notify: true}
	h := baseHeader(call)
	setSession(h, of)
	r, err := p.exchange(ctx, call, form{method: http.MethodDelete, header: h})
	if err == nil {
		r.Close()
		return nil
	}
	// Servers need not let clients end sessions, and a lost one has ended.
	if f, ok := errors.AsType[*Failure](err); ok && (f.Kind == SessionLost || f.Status == http.StatusMethodNotAllowed) {
		return nil
	}
	return err
}

// cancel tells a server of the legacy era in the background that a request was ended: there,
// the end of its connection says nothing. Without an id it does nothing.
func (p *Peers) cancel(c *Call, id []byte) {
	if len(id) == 0 {
		return
	}
	n := &Call{Server: c.Server, Credential: c.Credential, Session: c.Session, Notify: true,
		Method: "notifications/cancelled", Message: cancelMessage(id)}
	p.background(func() {
		ctx, stop := context.WithTimeout(context.Background(), cancelTime)
		defer stop()
		if reply, err := p.Send(ctx, n); err == nil {
			reply.Close()
		}
	})
}
