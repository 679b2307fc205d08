// Package tools serves MCP: requests of clients to tool servers.
//
// It speaks both eras of the protocol on one address, merges the lists of several servers,
// and relays everything else as bytes: only names, ids and what the protocol's era demands
// are spliced. It guarantees that what a caller's list hides cannot be called, that no
// server learns a credential of the caller, and that one server that fails does not affect
// the others. The data plane admits and records requests; package peer talks to servers.
package tools

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

// Options configure a [Relay]. Peers are required.
type Options struct {
	Peers   peer.Sender
	Box     *secret.Box // seals sessions, cursors and states; nil is one that no other process opens
	Logger  *slog.Logger
	Version string // of the gateway
	// PublicURL returns the configured address of the gateway, empty if there is none. Nil
	// means none.
	PublicURL func() string

	// KeepAlive is the silence after which a stream gets a comment. Zero means 15 s;
	// negative sends none.
	KeepAlive time.Duration
	// Origins are the origins of browsers that may send requests, such as
	// https://app.example.com. The gateway's own always may.
	Origins []string

	// SearchAbove is how many tools the list of all servers shows at most; longer ones are
	// replaced by tools for searching. Zero shows all.
	SearchAbove int

	// Credentials sign in to servers that have one for each user. Nil means that such servers
	// cannot be used.
	Credentials Credentials
	// Stored returns what a server offered when it was last read, by its id, for users who have
	// not signed in there yet. Nil has nothing.
	Stored func(ctx context.Context, server string) ([]toolserver.FoundItem, error)

	// PlainNames gives the items of a bundle, or of all servers, that has one server only the
	// names that the server gives them. They change when another server joins.
	PlainNames bool
	// OldTransport serves clients with the transport of the revision 2024-11-05.
	OldTransport bool
}

// Credentials sign in to servers for users.
type Credentials interface {
	// Credential returns what a caller sends to a server; a nil identity is the gateway itself.
	// Its error is an *apierr.Error, or a *SignInError if the user has to sign in first.
	Credential(ctx context.Context, s *toolserver.Server, id *access.Identity) (peer.Credential, error)
}

// Relay serves requests to tool servers. It is safe for concurrent use.
type Relay struct {
	Options
	sessions  *sessions
	catalogue *catalogue
	running   *running
	draining  chan struct{} // closed when streams end
	drain     sync.Once
}

// New returns a relay.
func New(o Options) *Relay {
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Box == nil {
		o.Box, _ = secret.NewBox(secret.New(rand.Text())) // fails only for short keys
	}
	if o.PublicURL == nil {
		o.PublicURL = func() string { return "" }
	}
	s := newSessions(o.Peers, o.Version)
	return &Relay{Options: o, sessions: s, catalogue: newCatalogue(o.Peers, s), running: newRunning(), draining: make(chan struct{})}
}

// Drain ends the streams that would outlast every drain: clients open them on another node.
func (p *Relay) Drain() { p.drain.Do(func() { close(p.draining) }) }

// request is one request of a client.
type request struct {
	*Relay
	http   *http.Request
	tools  *dataplane.ToolRequest
	view   *view
	msg    *message // nil for GET and DELETE
	answer *answer

	era    peer.Era
	client peer.Client // what it says of itself
	token  *token      // of the legacy era; nil without a session
	old    *oldStream  // on which the client gets its responses; nil for others
	holder string      // whose sessions with servers it uses, in memory
	found  bool        // the message is the call of a tool by [callTool]
}

// CheckServer implements [dataplane.Tools].
func (p *Relay) CheckServer(s *snapshot.Snapshot, id *access.Identity, slug string) error {
	_, err := viewAt(s, id, slug, false)
	return err
}

// ServeTools implements [dataplane.Tools].
func (p *Relay) ServeTools(w http.ResponseWriter, r *http.Request, t *dataplane.ToolRequest) error {
	if err := p.checkOrigin(r); err != nil {
		return err
	}
	v, err := viewOf(t, p.PlainNames)
	if err != nil {
		return err
	}
	if t.Slug == "" {
		v.searchAbove = p.SearchAbove
	}
	a := newAnswer(w, r, p.KeepAlive)
	defer a.close()
	x := &request{Relay: p, http: r, tools: t, view: v, answer: a, holder: callerOf(t.Identity)}
	switch r.Method {
	case http.MethodPost:
		return x.post()
	case http.MethodGet:
		return x.listen()
	case http.MethodDelete:
		return x.end(w)
	}
	return errMethod
}

var errMethod = apierr.New(apierr.MethodNotAllowed, "tool servers take POST; GET and DELETE are for sessions of clients up to 2025-11-25")

// checkOrigin refuses requests that pages of other origins make, so that no page reaches a
// gateway in the network of its reader.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-%26-endpoint
func (p *Relay) checkOrigin(r *http.Request) error {
	if err := p.checkHost(r); err != nil {
		return err
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(p.Origins, origin) || origin == strings.TrimSuffix(p.PublicURL(), "/") {
		return nil
	}
	u, err := url.Parse(origin)
	if err == nil && strings.EqualFold(u.Host, r.Host) && p.isOwnName(hostname(r.Host)) {
		return nil
	}
	return apierr.New(apierr.Forbidden, "pages of the origin %.100q may not use tool servers; add it to tools.origins in the settings", origin).
		WithCode("origin_forbidden")
}

// checkHost refuses requests over loopback that name another host: a page can give its own
// name the address of its reader's machine.
func (p *Relay) checkHost(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	host := hostname(r.Host)
	if p.isOwnName(host) {
		return nil
	}
	for _, origin := range p.Origins {
		if host == hostOf(origin) {
			return nil
		}
	}
	return apierr.New(apierr.Forbidden, "requests for the host %.100q do not come from this machine; set public_url if a proxy sends them", host).
		WithCode("host_forbidden")
}

// isOwnName reports whether a host can only be the gateway: nobody else can give the name
// another address.
func (p *Relay) isOwnName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || host != "" && host == hostOf(p.PublicURL())
}

// hostname returns the name in a Host header, in small letters and without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// hostOf returns the name of the host of an address, empty for none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// post serves a message.
func (x *request) post() error {
	body, release, err := x.tools.ReadMessage(x.http)
	defer release()
	if err != nil {
		return err
	}
	m, problem := parseMessage(body)
	if problem != nil {
		return x.reject(nil, problem)
	}
	defer m.release()
	if id := x.http.URL.Query().Get(oldSession); id != "" && x.OldTransport {
		if x.old = x.running.oldStream(id, callerOf(x.tools.Identity), x.tools.Slug); x.old == nil {
			return x.reject(m.id, errNoSession)
		}
		defer useOldStream(x)()
	}
	x.msg, x.tools.MessageID = m, m.id
	if parent, ok := m.meta.Find("traceparent"); ok {
		text, _ := parent.Text()
		x.tools.SetTrace(text)
	}
	if x.era = eraOf(x.http, m); x.old != nil {
		x.era = peer.Legacy
	}
	if x.era == peer.Modern {
		problem = x.prepareModern()
	} else {
		problem = x.prepareLegacy()
	}
	if problem != nil {
		return x.reject(m.id, problem)
	}
	return x.dispatch()
}

// reject responds with an error.
func (x *request) reject(id []byte, e *rpcError) error {
	return x.answer.end(e.Response(id), e.status)
}

// respondWith responds with a result.
func (x *request) respondWith(value []byte) error {
	return x.answer.end(jsonrpc.Response(x.msg.id, "result", value), http.StatusOK)
}
