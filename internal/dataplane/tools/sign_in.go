package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// SignInError is the error for a server that the user has to sign in to first.
type SignInError struct {
	Server string // slug
	Name   string // of the server
	Link   string // of a page, for this user and once
	ID     string // of the request to sign in
	Key    string // of the credential with which the server wants more rights; empty if the user has none
}

// Error does not contain the link.
func (e *SignInError) Error() string { return "the user has to sign in to the tool server " + e.Server }

// message says what the user has to do, without the link.
func (e *SignInError) message() string {
	if e.Key != "" {
		return "The tool server " + e.Name + " wants more rights than you gave it. Sign in again to give them"
	}
	return "Sign in to the tool server " + e.Name + " to use its tools"
}

func (e *SignInError) text() string {
	return e.message() + ": open " + e.Link + " in your browser within ten minutes, then repeat this call. The link is only for you."
}

// signInKey is the key of the gateway's question whether the user signs in.
const signInKey = "modelgate/sign-in"

// codeElicitURL is the error of the revision 2025-11-25 for a call that needs a page first.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
const codeElicitURL = -32042

// declaresURL reports whether the client can show its user the address of a page.
func declaresURL(x *request) bool {
	v, err := jsonedit.ParseValue(orEmpty(x.client.Capabilities))
	if err != nil {
		return false
	}
	elicitation, _ := v.Get("elicitation")
	_, ok := elicitation.Get("url")
	return ok
}

// elicitation returns the parameters of the request to open a page.
func (e *SignInError) elicitation() []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("mode")
	b.String("url")
	b.Name("elicitationId")
	b.String(e.ID)
	b.Name("url")
	b.String(e.Link)
	b.Name("message")
	b.String(e.message())
	b.Close('}')
	return b.Bytes()
}

// required returns the error of the legacy era that asks to open a page.
func (e *SignInError) required() *rpcError {
	data := append([]byte(`{"elicitations":[`), e.elicitation()...)
	return newError(codeElicitURL, e.message()).withData(append(data, `]}`...))
}

// askSignIn responds to a call of a user who has to sign in first: as a question that the client
// shows, or else as the result of the tool, which has the link.
func (r *relay) askSignIn(e *SignInError) error {
	x := r.request
	switch {
	case declaresURL(x) && x.era == peer.Legacy:
		return x.rejectForSignIn(e)
	case declaresURL(x) && x.msg.method != "completion/complete":
		s, problem := r.openState()
		if problem != nil {
			return x.reject(x.msg.id, problem)
		}
		if s == nil {
			s = r.newState()
		}
		s.Until = time.Now().Add(stateTime).Unix()
		r.unfinished = true
		return x.respondWith(question(signInKey, "elicitation/create", e.elicitation(), s.seal(x.Box)))
	case r.item.Kind == toolserver.Tool:
		return x.respondWith(x.toolError(apierr.New(apierr.Denied, "%s", e.text())))
	}
	return x.reject(x.msg.id, newError(jsonrpc.InternalError, e.text()))
}

// signInWait is how long a call waits for a user who opens the page. Clients repeat the call as
// soon as the user agrees to open it.
const signInWait = 50 * time.Second

// signInPoll is the time between looking whether the user has signed in.
const signInPoll = time.Second

// awaitSignIn waits until the user has signed in, if that is what the client answers. answered is
// true if the user does not.
func (r *relay) awaitSignIn(ctx context.Context) (answered bool, err error) {
	responses, _ := r.request.msg.params.Find("inputResponses")
	value, ok := responses.Get(signInKey)
	if !ok || r.request.era != peer.Modern {
		return false, nil
	}
	r.dropAnswer(responses, signInKey)
	if action, _ := value.Get("action"); !action.IsText("accept") {
		const text = "the user did not sign in to the tool server %s"
		if r.item.Kind == toolserver.Tool {
			return true, r.withhold(text, r.server.Slug)
		}
		return true, r.request.reject(r.request.msg.id, newError(jsonrpc.InternalError, fmt.Sprintf(text, r.server.Slug)))
	}
	ctx, cancel := context.WithTimeout(ctx, signInWait)
	defer cancel()
	tick := time.NewTicker(signInPoll)
	defer tick.Stop()
	for {
		_, err := r.request.credential(ctx, r.server)
		if _, waits := errors.AsType[*SignInError](err); !waits {
			return false, nil // what is wrong otherwise is found again
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-tick.C:
		}
	}
}

// storedList returns what a server offered when it was last read, or else the error.
func storedList(ctx context.Context, x *request, s *toolserver.Server, k *listKind, otherwise error) (*list, error) {
	if x.Stored == nil {
		return nil, otherwise
	}
	l, err := x.catalogue.stored(ctx, s, k, x.Stored)
	if err != nil || len(l.items) == 0 {
		return nil, otherwise
	}
	return l, nil
}

// storedKey is the key of the credential under which the catalogue has what was stored. No user
// has it.
const storedKey = "\x00stored"

// storedTime is how long what was stored is remembered.
const storedTime = 10 * time.Second

// stored returns a list of a server as it was last read.
func (c *catalogue) stored(ctx context.Context, s *toolserver.Server, k *listKind,
	read func(context.Context, string) ([]toolserver.FoundItem, error)) (*list, error) {
	cred := peer.Credential{Key: storedKey}
	if l, ok := c.fresh(s, cred, k); ok {
		return l, nil
	}
	o, i := c.offerOf(s, cred), indexOf(k)
	err := c.share(ctx, o, i, func(ctx context.Context) error {
		items, err := read(ctx, s.ID)
		if err != nil {
			return err
		}
		l := &list{byName: make(map[string]*definition), until: c.now().Add(storedTime), ttl: storedTime, private: true}
		for _, item := range items {
			if item.Kind != k.kind {
				continue
			}
			if d, problem := parseDefinition(k, item.Definition); problem == "" {
				l.items = append(l.items, d)
				l.size += len(d.raw)
			}
		}
		for n := range l.items {
			l.byName[l.items[n].name] = &l.items[n]
		}
		o.mu.Lock()
		o.lists[i] = l
		o.mu.Unlock()
		c.weigh(o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lists[i], nil
}

// failList responds to a list that no server gives. e is nil if no user has to sign in.
func failList(x *request, e *SignInError, err error) error {
	if e != nil {
		return x.rejectForSignIn(e)
	}
	return x.fail(err)
}

// explainMissing returns why the items of a server are missing in a list, with the link for its
// user.
func explainMissing(err error) string {
	if e, ok := errors.AsType[*SignInError](err); ok {
		return e.text()
	}
	return explain(err)
}
