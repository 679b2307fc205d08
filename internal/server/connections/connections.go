// Package connections has the tokens of users for tool servers that each user signs in to.
//
// The rows of the database are the truth; what was read is remembered for [freshTime], so that
// a call does not read the database, and a sign-in or revocation takes effect on all nodes
// within that time. It guarantees that tokens are refreshed by one node at a time, that a failure that may
// pass never ends a connection, and that a token is sent to the address that it was given for
// and nowhere else. Tokens that are deleted are revoked in the background. How users sign in is the job of controlplane/toolservers.
package connections

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// Times and limits.
const (
	freshTime = 2 * time.Second // for which a row is not read again
	failTime  = 2 * time.Second // for which a failed refresh is not tried again; twice as long after each further one
	maxFails  = 5               // after which that time grows no more
	staleTime = 5 * time.Minute // for which tokens are used while the database is away

	leaseTime   = time.Minute      // within which a refresh ends, whatever happens
	refreshTime = 30 * time.Second // for the authorization server; with two storeTime less than leaseTime
	storeTime   = 10 * time.Second // for the database afterwards
	leasePoll   = 100 * time.Millisecond

	maxHeld = 20_000
)

// Sealer seals secrets for storage.
type Sealer interface {
	Seal(ctx context.Context, organisation string, s secret.String) (string, error)
	Open(ctx context.Context, organisation, sealed string) (secret.String, error)
}

// Options are what a [Service] needs.
type Options struct {
	DB      *store.DB
	Secrets Sealer // nil without a master key: nobody can sign in then
	Links   toolauth.Links
	Client  *toolauth.Client
	Egress  func(organisation, workspace string) *egress.Policies
	Logger  *slog.Logger
	Now     func() time.Time // nil is time.Now
}

// Service returns what users send to tool servers. It is safe for concurrent use.
type Service struct {
	Options

	mu   sync.Mutex
	held map[key]*entry // guarded by mu

	ended chan []store.EndedConnection // whose tokens Run revokes, each of one server
}

// key names a connection.
type key struct{ server, user string }

// entry is what is remembered of a connection.
type entry struct {
	turn    chan struct{}        // has a token while nobody reads or refreshes
	current atomic.Pointer[view] // nil before it was read
	used    atomic.Int64
}

// view is a connection as it was read. It is immutable.
type view struct {
	row   store.ToolConnection
	grant *toolauth.Grant // nil if the user must sign in
	until time.Time       // when the row is read again
	renew time.Time       // when the token is renewed; zero is never
	err   error           // why there is no token although the user has signed in; nil for none
	read  time.Time
	fails int // refreshes of this version that failed, one after another
	// fetched is true for tokens that this node has got from the authorization server just now,
	// until the row is read again.
	fetched bool
}

// New returns a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{Options: o, held: make(map[key]*entry), ended: make(chan []store.EndedConnection, maxEnded)}
}

func (s *Service) entry(server, user string) *entry {
	k := key{server, user}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.held[k]
	if e == nil {
		if len(s.held) >= maxHeld {
			s.evict()
		}
		e = &entry{turn: make(chan struct{}, 1)}
		e.turn <- struct{}{}
		s.held[k] = e
	}
	e.used.Store(s.Now().UnixNano())
	return e
}

// evict removes a part of what was not used lately.
func (s *Service) evict() {
	keys := slices.SortedFunc(maps.Keys(s.held), func(a, b key) int {
		return int(min(max(s.held[a].used.Load()-s.held[b].used.Load(), -1), 1))
	})
	for _, k := range keys[:maxHeld/8] {
		delete(s.held, k)
	}
}

// Forget makes the next call read a connection again.
func (s *Service) Forget(server, user string) { s.entry(server, user).current.Store(nil) }

var (
	errNoUser = apierr.New(apierr.Forbidden, "each user signs in to this tool server, and this key has none: use the key of a user, or sign in to the gateway").
			WithCode("tool_server_needs_user")
	errNoMasterKey = apierr.New(apierr.Unavailable, "nobody can sign in to tool servers because the gateway was started without a master key").
			WithCode("no_master_key")
)

// Credential returns what a user sends to a server. Its error is a *tools.SignInError if the user
// has to sign in, and otherwise an *apierr.Error or that of a context that ended.
func (s *Service) Credential(ctx context.Context, server *toolserver.Server, id *access.Identity) (peer.Credential, error) {
	var none peer.Credential
	if id == nil || id.UserID == "" {
		return none, errNoUser
	}
	if s.Secrets == nil || s.Links.Box == nil {
		return none, errNoMasterKey
	}
	v, err := s.load(ctx, server, id.UserID)
	switch {
	case err != nil:
		return none, err
	case v.err != nil:
		return none, v.err
	case !v.has(server):
		return none, s.signInError(server, id.UserID, "", nil)
	}
	return peer.Credential{
		Key:    credentialKey(id.UserID, v.grant),
		Header: http.Header{"Authorization": {bearer(v.grant)}},
		Renew: func(ctx context.Context, sent string, f *peer.Failure, tried int) (string, error) {
			return s.renew(ctx, refusal{server, id.UserID, sent, f, tried})
		},
	}, nil
}

// credentialKey names what a user got with a sign-in, however often it is renewed.
func credentialKey(user string, g *toolauth.Grant) string { return "user " + user + " " + g.SignIn }

func bearer(g *toolauth.Grant) string { return "Bearer " + g.Access.Reveal() }

// signInError returns the error for a user who has to sign in. More are scopes to ask for in
// addition to the usual ones, because those of the credential with a key are not enough.
func (s *Service) signInError(server *toolserver.Server, user, key string, more []string) error {
	link, id := s.Links.New(toolauth.Link{Organisation: server.Organisation, Workspace: server.Workspace, Server: server.ID, User: user,
		Scopes: more}, s.Now())
	return &tools.SignInError{Server: server.Slug, Name: server.Name, Link: link, ID: id, Key: key}
}

// load returns the connection of a user: what is remembered, or else what the database has.
func (s *Service) load(ctx context.Context, server *toolserver.Server, user string) (*view, error) {
	e := s.entry(server.ID, user)
	if v := e.current.Load(); v != nil && s.isFresh(v) {
		return v, nil
	}
	return e.alone(ctx, func(ctx context.Context) (*view, error) {
		before := e.current.Load()
		if before != nil && s.isFresh(before) {
			return before, nil
		}
		v, err := s.read(ctx, server, user)
		if err != nil {
			if ctx.Err() == nil && before != nil && s.isUsable(before) {
				return before, nil
			}
			return nil, err
		}
		v.wait(before)
		if v.has(server) && !v.renew.IsZero() && !s.Now().Before(v.renew) {
			return s.refresh(ctx, server, v, false)
		}
		return v, nil
	})
}

// alone runs f while nobody else does, and remembers its view. If ctx ends, the caller leaves and f goes
// on: what an authorization server gives must be stored, and the others wait for it.
func (e *entry) alone(ctx context.Context, f func(context.Context) (*view, error)) (v *view, err error) {
	if err := e.take(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var out *view
	var failed error
	go func() {
		defer e.leave()
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
		defer cancel()
		if out, failed = f(ctx); failed == nil {
			e.current.Store(out)
		}
	}()
	select {
	case <-done:
		return out, failed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wait takes over when a refresh that failed before is tried again.
func (v *view) wait(before *view) {
	if before != nil && before.fails > 0 && before.row.Version == v.row.Version {
		v.fails, v.renew = before.fails, before.renew
	}
}

func (e *entry) take(ctx context.Context) error {
	select {
	case <-e.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *entry) leave() { e.turn <- struct{}{} }

func (s *Service) isFresh(v *view) bool {
	now := s.Now()
	return now.Before(v.until) && (v.grant == nil || v.err != nil || v.renew.IsZero() || now.Before(v.renew))
}

// isUsable reports whether a connection is used while the database is away.
func (s *Service) isUsable(v *view) bool {
	now := s.Now()
	return v.grant != nil && v.err == nil && now.Before(v.read.Add(staleTime)) && !hasEnded(v.grant, now)
}

func hasEnded(g *toolauth.Grant, now time.Time) bool {
	return !g.Tokens.Ends.IsZero() && !now.Before(g.Tokens.Ends)
}

// read reads a connection.
func (s *Service) read(ctx context.Context, server *toolserver.Server, user string) (*view, error) {
	v := &view{read: s.Now(), until: s.Now().Add(freshTime)}
	var err error
	v.row, err = s.DB.ToolConnection(ctx, server.ID, user)
	if apierr.IsNotFound(err) {
		return v, nil
	}
	if err != nil {
		return nil, s.DB.ClientError(err)
	}
	return v, s.open(ctx, server, v)
}

// open opens the tokens of a row.
func (s *Service) open(ctx context.Context, server *toolserver.Server, v *view) error {
	if v.row.State != store.ConnectionActive || v.row.Sealed == "" {
		return nil
	}
	text, err := s.Secrets.Open(ctx, server.Organisation, v.row.Sealed)
	if err == nil {
		v.grant, err = toolauth.ParseGrant(text)
	}
	if err != nil {
		return apierr.New(apierr.Unavailable, "your tokens for the tool server %s cannot be opened; revoke the connection and sign in again", server.Slug).
			WithCode("tool_server_unusable").WithCause(err)
	}
	v.renew = v.grant.RenewAt()
	return nil
}

// has reports whether there are tokens for a server. Those for another address, or of another
// client than the settings have, are of no use, whenever they were read.
func (v *view) has(server *toolserver.Server) bool { return v.grant != nil && v.grant.Fits(server) }

// allow returns the check of addresses for a server.
func (s *Service) allow(server *toolserver.Server) toolauth.Allow {
	return func(u *url.URL) error {
		return s.Egress(server.Organisation, server.Workspace).Check(egress.Request{Managed: true, Host: u})
	}
}

// refusal is a request that a server refused.
type refusal struct {
	server  *toolserver.Server
	user    string
	sent    string // Authorization
	failure *peer.Failure
	tried   int
}

// renew returns what to send instead of what a server refused.
func (s *Service) renew(ctx context.Context, r refusal) (string, error) {
	e := s.entry(r.server.ID, r.user)
	v, err := e.alone(ctx, func(ctx context.Context) (*view, error) {
		before := e.current.Load()
		if before != nil && before.err != nil && s.isFresh(before) && bearer(before.grant) == r.sent {
			return before, nil
		}
		v, err := s.read(ctx, r.server, r.user)
		if err != nil {
			return nil, err
		}
		v.wait(before)
		switch {
		case r.failure.Status != http.StatusUnauthorized, !v.has(r.server): // it is revoked, or another node ended it
			return v, nil
		case bearer(v.grant) != r.sent: // another request has renewed it
			return v, nil
		case v.grant.Refresh.Empty(), r.tried > 0 && before != nil && before.fetched && bearer(before.grant) == r.sent:
			return s.end(ctx, r.server, v) // another one would be refused too
		}
		return s.refresh(ctx, r.server, v, true)
	})
	if err != nil {
		return "", err
	}
	switch {
	case r.failure.Status != http.StatusUnauthorized:
		return "", s.stepUpError(r, v)
	case v.err != nil:
		return "", v.err
	case !v.has(r.server):
		return "", s.signInError(r.server, r.user, "", nil)
	}
	return bearer(v.grant), nil
}

// stepUpError returns the error for a server that wants more rights. One that wants what the user was
// asked for already is not asked again: the user or the authorization server has refused it.
func (s *Service) stepUpError(r refusal, v *view) error {
	challenge := toolauth.Challenge(r.failure.Challenge)
	wanted := toolauth.Union(strings.Fields(challenge["scope"]))
	if challenge["error"] != "insufficient_scope" || len(wanted) == 0 || !v.has(r.server) {
		return nil
	}
	if !slices.ContainsFunc(wanted, func(scope string) bool { return !slices.Contains(v.grant.Asked, scope) }) {
		return nil
	}
	return s.signInError(r.server, r.user, credentialKey(r.user, v.grant), toolauth.Union(v.grant.Asked, v.grant.Scopes, wanted))
}
