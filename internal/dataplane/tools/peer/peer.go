// Package peer sends messages to tool servers and reads what they answer.
//
// It knows the transports and both eras of MCP, and finds out which one a server speaks:
// the modern one, of the revision 2026-07-28 and later, which has no sessions,
// and the legacy one, with sessions. Messages are JSON-RPC as the caller wrote them: nothing
// in them is decoded or changed. Every error is a *Failure, whose text contains no
// credential and no address. It does not decide who may call what, retry, merge lists or
// translate between eras (see tools).
package peer

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"modelgate/internal/provider/toolserver"
)

// Era is the shape of the protocol that a server or client speaks.
type Era uint8

// Eras.
const (
	Legacy Era = iota // up to 2025-11-25: initialize, sessions, requests by the server
	Modern            // 2026-07-28 and later: no sessions
)

// Revisions of the protocol that are sent.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25" // the newest of the legacy era
)

// Credential is what a call adds to the headers of a server.
type Credential struct {
	// Key names whose credential it is, so that nothing that depends on one is used with
	// another: sessions, lists, what is known of the era. Empty is the server's own.
	Key string
	// Header is sent with each request, and overrides that of the server. It is not changed.
	Header http.Header
	// Renew returns another Authorization after a server refused the request with this one; tried counts
	// how often that was done for the request. Empty leaves it at the refusal. An error is the
	// cause of the failure instead. Nil renews none. It may be called concurrently.
	Renew func(ctx context.Context, sent string, f *Failure, tried int) (authorization string, err error)
}

// Client describes the client of the gateway to servers.
type Client struct {
	Info         json.RawMessage // clientInfo; nil for none
	Capabilities json.RawMessage // what the client declared; nil for none
}

// Session is a session with a server of the legacy era. The zero value is none: a call
// without a session is sent in the shape of the modern era.
type Session struct {
	// ID is empty if the server assigned none. Sessions with transports other than streamable
	// HTTP are kept by this node, so that another answers calls in them with SessionLost.
	ID      string
	Version string // negotiated revision; never empty
}

// Call is a message to a server.
type Call struct {
	Server     *toolserver.Server
	Credential Credential
	Client     Client  // describes the client; used in the modern era, and when a session begins
	Session    Session // of the legacy era

	Message []byte // complete, in the terms of the server; it must not change before the reply is closed
	Method  string
	Name    string      // name or URI of what is called, for the header of the modern era; empty for none
	Params  http.Header // headers Mcp-Param-* of the client, others are ignored; nil for none
	Notify  bool        // no answer is expected
}

// Reply is what a server answers. It must be closed, and is not safe for concurrent use: the
// end of the context of the call ends a Next in progress.
type Reply interface {
	// Next returns the next message: requests and notifications of the server, and at last
	// the response. It is valid until the next call. io.EOF is the clean end.
	Next() ([]byte, error)
	// Status is that of HTTP, 200 for other transports.
	Status() int
	// Streams reports whether more than one message may come.
	Streams() bool
	// Close ends the reply, and with it what the server does for it: in the legacy era, a
	// request without a response is cancelled by a message.
	Close()
}

// FailureKind is why a server did not answer.
type FailureKind uint8

// Kinds.
const (
	Unreachable  FailureKind = iota // it could not be connected to, or the connection broke
	Refused                         // the address may not be used
	Unauthorized                    // it refused the credential
	SessionLost                     // it does not know the session
	TimedOut
	Invalid     // it broke the protocol
	Unavailable // it was not asked, because it failed repeatedly, or cannot be used
	Cancelled   // the caller ended the call
)

// Failure is a message without an answer.
type Failure struct {
	Kind   FailureKind
	Unsent bool          // nothing of the message was written to the server
	Status int           // of HTTP; zero for none
	Wait   time.Duration // after which it may be asked again; zero is unknown
	// Challenge is the WWW-Authenticate of an Unauthorized failure.
	Challenge string
	Reason    string // for clients: without addresses, credentials and text of the server
	Err       error  // the cause; nil for none. Its text may quote the server.
}

// Error describes the failure.
func (f *Failure) Error() string { return f.Reason }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Sender sends messages to tool servers. It is implemented by *Peers.
type Sender interface {
	// Era returns which era a server speaks, asking it if that is unknown.
	Era(ctx context.Context, s *toolserver.Server, c Credential) (Era, error)
	// Open begins a session with a server of the legacy era, and returns its result of
	// initialize as well.
	Open(ctx context.Context, s *toolserver.Server, c Credential, by Client) (Session, []byte, error)
	// Send sends a message. The reply ends with ctx.
	Send(ctx context.Context, c *Call) (Reply, error)
	// Listen opens the stream of a session on which a server of the legacy era sends
	// messages by itself. A server without such streams returns a *Failure with the status 405.
	Listen(ctx context.Context, c *Call) (Reply, error)
	// End ends a session.
	End(ctx context.Context, s *toolserver.Server, c Credential, of Session) error
}
