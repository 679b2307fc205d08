// Package toolserver says what tool servers are: MCP servers of a workspace, bundles of what
// they offer, and what a caller may use of them.
//
// Its types are immutable once built, and free of I/O. Lists and calls ask the same
// functions, so that what a list hides cannot be called. Messages to servers are the job of
// dataplane/tools; where servers are stored, of store.
package toolserver

import (
	"net/url"
	"strconv"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/model/catalog"
)

// Transport is how messages reach a server.
type Transport string

// Transports.
const (
	HTTP    Transport = "http"    // streamable HTTP
	SSE     Transport = "sse"     // HTTP with server-sent events, of the revision 2024-11-05
	Stdio   Transport = "stdio"   // a child process of this node
	OpenAPI Transport = "openapi" // an HTTP API with a document, whose operations are tools
	A2A     Transport = "a2a"     // an agent: not a tool server, but with the same rights, limits and records
)

// Auth is how the gateway signs in to a server.
type Auth string

// Ways to sign in.
const (
	AuthNone              Auth = "none"
	AuthHeaders           Auth = "headers"                  // the same headers for all callers
	AuthClientCredentials Auth = "oauth_client_credentials" // one token for all callers
	AuthUser              Auth = "oauth_auto"               // each user signs in
)

// Server is a tool server as requests see it.
type Server struct {
	ID           string
	Slug         string // unique in the workspace, and never changed
	Workspace    string // id
	Organisation string // id
	Name         string
	Description  string // empty for none

	Transport Transport
	URL       *url.URL // of HTTP, SSE, OpenAPI and A2A; nil for Stdio
	Command   string   // Stdio: the name of a command in the settings of the node
	Document  string   // OpenAPI: the document of the API, as JSON
	Guarded   bool     // a tenant chose the address, so that it must pass the address guard
	// Revision changes whenever the integration does: what is remembered of the server, such as
	// lists and sessions, belongs to the address and the credentials of one revision.
	Revision int64

	Auth        Auth
	Headers     map[string]secret.String // sent with each request; names are in canonical form
	PassHeaders []string                 // of the client, forwarded by their names
	OAuth       *OAuthClient             // of AuthClientCredentials and AuthUser; nil for others

	// CallTimeout limits a call, whatever progress it reports; zero is 10 minutes.
	// IdleTimeout limits the silence of a server during a call; zero is 60 s.
	CallTimeout, IdleTimeout time.Duration

	// Own are the items that the server has switched off or priced; Above is the same of its
	// integration, which outranks it.
	Own, Above Rules

	// TrustAnnotations makes rules read the annotations of the server's tools; otherwise every
	// tool counts as one that writes.
	TrustAnnotations bool
	// Writes decides about tools that are not read-only, and Destroys about those that may
	// destroy something. An empty value allows them.
	Writes, Destroys Decision

	// HoldChanged hides an item whose definition is not the approved one.
	HoldChanged bool

	// Users are the users, by id, to whom access was given or denied; UsersDenied is what
	// applies to all others. Keys without a user are not limited by either.
	Users       map[string]bool
	UsersDenied bool

	// SearchAbove is how many tools the server's own address lists at most; longer lists are
	// replaced by tools for searching. Zero lists all.
	SearchAbove int

	// Fault is why the server cannot be used. Nil means that it can.
	Fault error
}

// Decision is what a rule does with a call.
type Decision string

// Decisions.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // the user approves the call, if the client can ask
	Deny  Decision = "deny"
)

// Rules are rules for single items of a server.
type Rules struct {
	// Off are the items that may not be used.
	Off map[Item]bool
	// Approved are the digests of approved definitions; see [Digest].
	Approved map[Item]string
	// Prices are those of calls, by the name of the tool; "*" is for all others.
	Prices map[string]catalog.NanoDollars
}

// Kind is a kind of what servers offer.
type Kind string

// Kinds.
const (
	Tool     Kind = "tool"
	Prompt   Kind = "prompt"
	Resource Kind = "resource"
	Template Kind = "resource_template"
)

// Item names what a server offers: a tool or a prompt by its name, a resource by its URI, a
// template by its URI template. Names are those of the server.
type Item struct {
	Kind Kind
	Name string
}

// Message is the only item of an agent: a message to it. Its definition is the card of the
// agent.
var Message = Item{Tool, "message"}

// Bundle is a named selection of what the servers of a workspace offer.
type Bundle struct {
	ID        string
	Slug      string // unique among the servers and bundles of the workspace, and never changed
	Workspace string // id
	Name      string
	Selection Selection

	SearchAbove int // as that of a server
}

// Place names where requests to the server go, and with which credentials, without showing them.
func (s *Server) Place() string {
	place := strconv.FormatInt(s.Revision, 36)
	if s.URL != nil {
		place += " " + s.URL.String()
	}
	return place
}

// Price returns what a call of a tool costs.
func (s *Server) Price(tool string) catalog.NanoDollars {
	for _, r := range [...]Rules{s.Above, s.Own} {
		for _, name := range [...]string{tool, "*"} {
			if p, ok := r.Prices[name]; ok {
				return p
			}
		}
	}
	return 0
}

// Shows reports whether the rules of the server and its integration let an item be used
// whose definition has this digest; an empty digest is that of an unknown definition.
func (s *Server) Shows(i Item, digest string) bool {
	if s.IsOff(i) {
		return false
	}
	if !s.Holds(i) {
		return true
	}
	approved, ok := s.Above.Approved[i]
	if !ok {
		approved, ok = s.Own.Approved[i]
	}
	return ok && approved == digest
}

// IsOff reports whether the rules of the server or its integration switch an item off.
func (s *Server) IsOff(i Item) bool {
	if i.Kind == Resource {
		return s.Above.isOffURI(i.Name) || s.Own.isOffURI(i.Name)
	}
	return s.Above.Off[i] || s.Own.Off[i]
}

// Holds reports whether an item is hidden until its definition is approved: tools and
// prompts, whose definitions models read.
func (s *Server) Holds(i Item) bool { return s.HoldChanged && (i.Kind == Tool || i.Kind == Prompt) }

// AllowsUser reports whether a user may use the server. An empty id is a key without one.
func (s *Server) AllowsUser(user string) bool {
	if user == "" {
		return true
	}
	if allowed, ok := s.Users[user]; ok {
		return allowed
	}
	return !s.UsersDenied
}
