package tools

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

// errNoSession makes clients begin a new session, as the protocol says of the status 404.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
var errNoSession = &rpcError{jsonrpc.Error{Code: jsonrpc.InvalidRequest,
	Message: "the session is unknown or has expired; send initialize again"}, http.StatusNotFound}

// findSession finds the session that a request names. A request without one is served too,
// with sessions of its caller at servers.
func (x *request) findSession() *rpcError {
	ids := x.http.Header.Values(headerSession)
	if len(ids) == 0 {
		return nil
	}
	t, ok := openToken(x.Box, ids[0], callerOf(x.tools.Identity), x.tools.Slug, time.Now())
	if len(ids) > 1 || !ok || x.running.hasEnded(t.digest()) {
		return errNoSession
	}
	x.useToken(t)
	return nil
}

func (x *request) useToken(t *token) {
	x.token, x.holder, x.tools.Session = t, t.digest(), t.digest()
	x.client = peer.Client{Info: t.Info, Capabilities: t.Capabilities}
}

// initialize begins a session: with every server of the legacy era that answers in time.
func (x *request) initialize() error {
	params := &x.msg.params
	version, ok := x.msg.param("protocolVersion")
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "initialize must name a protocolVersion"))
	}
	if !slices.Contains(legacyVersions, version) {
		version = peer.LegacyVersion
	}
	t := &token{Caller: callerOf(x.tools.Identity), Slug: x.tools.Slug, Version: version, Begun: time.Now().Unix(),
		Servers: map[string]tokenSession{}}
	for name, field := range map[string]*[]byte{"capabilities": (*[]byte)(&t.Capabilities), "clientInfo": (*[]byte)(&t.Info)} {
		v, ok := params.Find(name)
		switch {
		case !ok:
		case v.Kind() != jsonedit.Object:
			return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, name+" must be an object"))
		case len(v.Raw()) > maxDeclared:
			return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, name+" must have at most 4 KB"))
		default:
			*field = compact(v.Raw())
			if name == "capabilities" {
				*field = withoutTasks(*field)
			}
		}
	}
	if acts, _ := x.tools.Guards(); acts { // they do not read what it says of itself
		t.Info, t.Capabilities = nil, plainCapabilities(t.Capabilities)
	}
	x.client = peer.Client{Info: t.Info, Capabilities: t.Capabilities}
	greetings := x.greetAll(t)
	x.http.Header.Del(headerSession)
	id := t.seal(x.Box)
	if x.old != nil {
		defer x.old.keep(t)()
	} else {
		x.answer.w.Header()[headerSession] = []string{id}
	}
	return x.respondWith(x.initializeResult(version, greetings))
}

// greeting is what a server says of itself, nil if it does not answer.
type greeting struct {
	server *toolserver.Server
	hello  *hello
}

// hasTasks reports whether the server may answer calls with tasks.
func (g greeting) hasTasks() bool { return g.hello != nil && g.hello.extensions[extensionTasks] }

// greetAll asks all servers of the view what they are. With a token, sessions begin with
// those of the legacy era.
func (x *request) greetAll(t *token) []greeting {
	out := make([]greeting, len(x.view.servers))
	ctx, cancel := context.WithTimeout(x.http.Context(), greetTime)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, s := range x.view.servers {
		out[i].server = s
		all.Go(func() {
			cred, err := x.credential(ctx, s)
			if err != nil {
				return
			}
			h, err := x.catalogue.hello(ctx, s, cred)
			if err != nil {
				return
			}
			out[i].hello = h
			if t == nil || h.era == peer.Modern {
				return
			}
			if session, _, err := x.Peers.Open(ctx, s, cred, x.client); err == nil {
				mu.Lock()
				defer mu.Unlock()
				t.Servers[s.ID] = tokenSession{session.ID, session.Version}
			}
		})
	}
	all.Wait()
	return out
}

// greetTime is how long a client waits for servers that do not say what they are.
const greetTime = 5 * time.Second

// end ends a session.
func (x *request) end(w http.ResponseWriter) error {
	if x.http.Header.Get(headerSession) == "" {
		return errMethod
	}
	if problem := x.findSession(); problem != nil {
		return x.reject(nil, problem)
	}
	x.running.endSession(x.token.digest())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.http.Context()), greetTime)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range x.view.servers {
		session, ok := x.token.session(s.ID)
		if !ok || session.ID == "" {
			continue
		}
		all.Go(func() {
			if cred, err := x.credential(ctx, s); err == nil {
				x.Peers.End(ctx, s, cred, session) // the server ends it by itself otherwise
			}
		})
	}
	all.Wait()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// notify serves a notification.
func (x *request) notify() error {
	switch x.msg.method {
	case "notifications/initialized":
	case "notifications/cancelled":
		id, _ := x.msg.params.Find("requestId")
		if x.token != nil && !x.running.cancel(runningKey{x.holder, string(id.Raw())}, errCancelled) {
			x.tellAll() // another node may have the request
		}
	case "notifications/roots/list_changed":
		if err := x.tools.Count(x.http.Context()); err != nil { // it goes to all servers
			return err
		}
		x.tellAll()
	} // others have no meaning, and reach no server
	x.answer.accepted()
	return nil
}

// errCancelled is the cause of requests that their client cancelled.
var errCancelled = errors.New("the client cancelled the request")

// tellAll sends the notification to the servers of the session.
func (x *request) tellAll() {
	if x.token == nil {
		return
	}
	msg := x.msg.body
	if acts, _ := x.tools.Guards(); acts {
		if msg = bareNotice(x); msg == nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.http.Context()), greetTime)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range x.view.servers {
		session, ok := x.token.session(s.ID)
		if !ok {
			continue
		}
		all.Go(func() {
			cred, err := x.credential(ctx, s)
			if err != nil {
				return
			}
			reply, err := x.Peers.Send(ctx, &peer.Call{Server: s, Credential: cred, Client: x.client, Session: session,
				Message: msg, Method: x.msg.method, Notify: true})
			if err == nil {
				reply.Close()
			}
		})
	}
	all.Wait()
}

// caller is who sends something to a server, and what limits them.
type caller struct {
	identity *access.Identity
	snapshot *snapshot.Snapshot
}

// caller returns the caller of the request.
func (x *request) caller() caller { return caller{x.tools.Identity, x.tools.Snapshot} }

// credential returns what the caller sends to a server.
func (x *request) credential(ctx context.Context, s *toolserver.Server) (peer.Credential, error) {
	return x.credentialOf(ctx, s, x.caller())
}

// credentialOf returns what a caller sends to a server.
func (x *request) credentialOf(ctx context.Context, s *toolserver.Server, by caller) (peer.Credential, error) {
	if s.Fault != nil {
		return peer.Credential{}, s.Fault
	}
	if s.URL != nil {
		if err := by.snapshot.Egress(by.identity).Check(egress.Request{Managed: true, Host: s.URL}); err != nil {
			return peer.Credential{}, err
		}
	}
	var c peer.Credential
	if s.Auth == toolserver.AuthUser || s.Auth == toolserver.AuthClientCredentials {
		if x.Credentials == nil {
			return c, ErrNoSignIn(s)
		}
		var err error
		if c, err = x.Credentials.Credential(ctx, s, by.identity); err != nil {
			return c, signInError(err)
		}
	}
	return x.withPassed(c, s), nil
}

// signInError returns the error of signing in to a server for a response. It never has the status
// 401: clients would take that for a refusal of their own key, and drop it.
func signInError(err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.Unauthenticated {
		return err
	}
	failed := *e
	failed.Kind = apierr.UpstreamFailed
	return &failed
}
