package tools

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/sse"
	"modelgate/internal/provider/toolserver"
)

// What servers of another protocol share with tool servers; see package agents.

// CheckOrigin refuses requests that pages of other origins make, and those over loopback for
// another host.
func CheckOrigin(p *Relay, r *http.Request) error { return p.checkOrigin(r) }

// SignIn returns what the caller of a request sends to a server. It refuses servers that cannot
// be used, and hosts that egress policies of the caller forbid.
func SignIn(ctx context.Context, p *Relay, r *http.Request, t *dataplane.ToolRequest, s *toolserver.Server) (peer.Credential, error) {
	x := &request{Relay: p, http: r, tools: t}
	return x.credentialOf(ctx, s, x.caller())
}

// Stream writes events to a client. It is safe for concurrent use.
type Stream struct{ answer *answer }

// NewStream returns a stream that begins with its first event or [Stream.Open]. Its comments
// come after a silence of keepAlive, if that is positive.
func NewStream(w http.ResponseWriter, r *http.Request, keepAlive time.Duration) Stream {
	return Stream{newAnswer(w, r, keepAlive)}
}

// Open begins the stream without an event.
func (s Stream) Open() error { return s.answer.open() }

// Event writes an event. An empty type is that of a message.
func (s Stream) Event(typ string, data []byte) error {
	a := s.answer
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	a.written = time.Now()
	return a.flush(sse.AppendEvent(a.buf[:0], typ, data))
}

// Close ends the stream: nothing is written afterwards.
func (s Stream) Close() { s.answer.close() }

// OwnCredential returns what the gateway sends to a server without a caller.
func OwnCredential(ctx context.Context, p *Relay, s *toolserver.Server) (cred peer.Credential, err error) {
	switch s.Auth {
	case toolserver.AuthUser:
		return cred, apierr.New(apierr.Conflict, "users sign in to this server themselves, so the gateway cannot read it on its own").WithCode("tool_server_needs_user")
	case toolserver.AuthClientCredentials:
		if p.Credentials == nil {
			return cred, ErrNoSignIn(s)
		}
		return p.Credentials.Credential(ctx, s, nil)
	}
	return cred, nil
}
