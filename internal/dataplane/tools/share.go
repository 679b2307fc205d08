package tools

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/sse"
	"modelgate/internal/identity/access"
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

// OwnCredential returns what the gateway sends to a server without a request: as a user, or for an
// empty one as itself.
func OwnCredential(ctx context.Context, p *Relay, s *toolserver.Server, user string) (cred peer.Credential, err error) {
	if s.Auth != toolserver.AuthClientCredentials && s.Auth != toolserver.AuthUser {
		return cred, nil
	}
	if p.Credentials == nil {
		return cred, ErrNoSignIn(s)
	}
	cred, err = p.Credentials.Credential(ctx, s, &access.Identity{UserID: user, Organisation: s.Organisation, Workspace: s.Workspace})
	return cred, explainSignIn(s, err)
}
