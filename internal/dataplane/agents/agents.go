// Package agents serves A2A: requests of clients to agents.
//
// It relays the bindings JSON-RPC and HTTP+JSON as bytes: only ids of tasks and contexts, and
// the addresses in cards, are replaced. It guarantees that a caller reaches no task of
// another, that no card names an address or a sign-in but those of the gateway, and that no
// agent learns a credential of the caller. For rights, limits, prices and records, an agent is
// a tool server with a single tool, [toolserver.Message]. The data plane admits and records
// requests; package peer talks to agents.
package agents

import (
	"context"
	"net/http"
	"regexp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

// Relay serves requests to agents. It is safe for concurrent use.
type Relay struct {
	shared  *tools.Relay
	peers   *peer.Peers
	servers dataplane.Tools
	cards   *cards
}

// New returns a relay that shares the origins, the master key and the sign-in of the relay of
// tool servers, and asks agents through peers. Requests to tool servers are passed to servers.
func New(shared *tools.Relay, peers *peer.Peers, servers dataplane.Tools) *Relay {
	return &Relay{shared: shared, peers: peers, servers: servers, cards: newCards(peers)}
}

// request is one request of a client.
type request struct {
	*Relay
	http  *http.Request
	w     http.ResponseWriter
	tools *dataplane.ToolRequest
	agent *toolserver.Server
	cred  peer.Credential
	card  *card
	ids   ids
	rest  bool // the binding HTTP+JSON

	release func() // ends the use of the memory of the body
}

// CheckServer implements [dataplane.Tools].
func (p *Relay) CheckServer(s *snapshot.Snapshot, id *access.Identity, slug string) error {
	return p.servers.CheckServer(s, id, slug)
}

// ServeTools implements [dataplane.Tools].
func (p *Relay) ServeTools(w http.ResponseWriter, r *http.Request, t *dataplane.ToolRequest) error {
	if !t.ForAgent {
		return p.servers.ServeTools(w, r, t)
	}
	if err := tools.CheckOrigin(p.shared, r); err != nil {
		return err
	}
	agent, err := agentOf(t)
	if err != nil {
		return err
	}
	x := &request{Relay: p, http: r, w: w, tools: t, agent: agent, rest: t.Path != "",
		release: func() {}, ids: ids{box: p.shared.Box, owner: t.Identity.Holder() + "\n" + agent.ID}}
	defer func() { x.release() }()
	err = x.serve()
	if e, ok := asAgentError(err); ok && !x.rest { // JSON-RPC has its errors in the body
		return x.write(http.StatusOK, "application/json", t.ErrorBody(e))
	}
	return err
}

// errNoAgent is the same for agents that do not exist, are disabled and are forbidden.
var errNoAgent = apierr.New(apierr.NotFound, "there is no agent at this address that this key may use").WithCode("agent_not_found")

// agentOf returns the agent at the address of a request, if its caller may use it.
func agentOf(t *dataplane.ToolRequest) (*toolserver.Server, error) {
	s, ok := t.Snapshot.Agent(t.Identity.Workspace, t.Slug)
	if !ok || !s.AllowsUser(t.Identity.UserID) || s.IsOff(toolserver.Message) {
		return nil, errNoAgent
	}
	for _, selection := range t.Snapshot.ToolSelections(t.Identity) {
		if !selection.Has(s.Slug, toolserver.Message) {
			return nil, errNoAgent
		}
	}
	return s, nil
}

// versionPattern is that of versions in the header A2A-Version.
var versionPattern = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$`)

// Names of headers, in canonical form, and the limit of a list of extensions in bytes.
const (
	versionHeader    = "A2a-Version"
	extensionsHeader = "A2a-Extensions"
	maxExtensions    = 4 << 10
)

// serve serves the request.
func (x *request) serve() error {
	x.tools.Describe(api.Agents, x.agent.Slug, "")
	h := x.http.Header
	if v := h.Get(versionHeader); len(h.Values(versionHeader)) > 1 || v != "" && !versionPattern.MatchString(v) {
		return apierr.New(apierr.Invalid, "the header A2A-Version must have a version such as 1.0").WithParam("A2A-Version").
			WithCode("a2a_version_not_supported")
	}
	if len(h.Get(extensionsHeader)) > maxExtensions || len(h.Values(extensionsHeader)) > 1 {
		return invalid("A2A-Extensions", "the header A2A-Extensions must occur once, with at most %d bytes", maxExtensions)
	}
	if x.tools.HoldsKey(h.Values(extensionsHeader)) {
		return invalid("A2A-Extensions", "the header A2A-Extensions has a credential of the gateway, which no agent gets")
	}
	c, err := x.read()
	if err != nil {
		return err
	}
	if c.kind.card == publicCard {
		return x.showCard()
	}
	if err := x.prepare(x.http.Context()); err != nil {
		return err
	}
	return x.relay(c)
}

// prepare signs in to the agent and reads its card.
func (x *request) prepare(ctx context.Context) (err error) {
	if x.cred, err = tools.SignIn(ctx, x.shared, x.http, x.tools, x.agent); err != nil {
		return err
	}
	if x.card, err = x.cards.of(ctx, x.agent, x.cred); err != nil {
		return clientError(err)
	}
	return x.checkCard(x.card.digest)
}

// checkCard returns an error if only an approved card may be used, and digest is that of another.
func (x *request) checkCard(digest string) error {
	if x.agent.Shows(toolserver.Message, digest) {
		return nil
	}
	return apierr.New(apierr.Forbidden, "the card of the agent %s is not the approved one; an administrator can read and approve it", x.agent.Slug).
		WithCode("agent_changed")
}

// showCard responds with the card of the agent.
func (x *request) showCard() error {
	if err := x.tools.Count(x.http.Context()); err != nil {
		return err
	}
	if err := x.prepare(x.http.Context()); err != nil {
		return err
	}
	out, err := x.card.outer(x.address())
	if err != nil {
		return clientError(err)
	}
	x.w.Header().Set("Cache-Control", "private, max-age=60")
	return x.write(http.StatusOK, "application/json", out)
}

// address returns the address of the agent at the gateway.
func (x *request) address() string {
	return x.tools.Address(x.http) + "/a2a/" + x.agent.Slug
}

func (x *request) write(status int, mediaType string, body []byte) error {
	x.w.Header().Set("Content-Type", mediaType)
	x.w.WriteHeader(status)
	if _, err := x.w.Write(body); err != nil {
		return writeError(err)
	}
	return nil
}
