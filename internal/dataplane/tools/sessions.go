package tools

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// sessions holds the sessions with servers of the legacy era that the gateway itself began:
// for its own questions, for clients of the modern era, and in place of sessions that a
// server has lost. It is safe for concurrent use.
type sessions struct {
	peers peer.Sender
	own   peer.Client // what the gateway says of itself
	next  atomic.Int64

	mu   sync.Mutex
	held map[sessionKey]*heldSession
}

// sessionKey is whose session it is. Callers never share one: a server may keep what they
// sent.
type sessionKey struct{ server, place, credential, holder string }

type heldSession struct {
	sync.Mutex // held while it begins
	begun      bool
	session    peer.Session
	result     []byte // of initialize
	used       atomic.Int64
}

// Limits of sessions.
const (
	maxSessions = 8192
	sessionIdle = 30 * time.Minute
)

func newSessions(peers peer.Sender, version string) *sessions {
	info := jsonedit.AppendString([]byte(`{"name":"modelgate","version":`), version)
	return &sessions{peers: peers, own: peer.Client{Info: append(info, '}'), Capabilities: []byte("{}")},
		held: make(map[sessionKey]*heldSession)}
}

// ownHolder holds the sessions for the gateway's own questions.
const ownHolder = ""

func keyOf(s *toolserver.Server, cred peer.Credential, holder string) sessionKey {
	return sessionKey{server: s.ID, place: s.Place(), credential: cred.Key, holder: holder}
}

// open returns the session of a holder, which it begins if there is none, and what the
// server answered to initialize.
func (s *sessions) open(ctx context.Context, key sessionKey, server *toolserver.Server, cred peer.Credential,
	by peer.Client) (peer.Session, []byte, error) {
	h := s.entry(key)
	h.Lock()
	defer h.Unlock()
	if h.begun {
		return h.session, h.result, nil
	}
	session, result, err := s.peers.Open(ctx, server, cred, by)
	if err != nil {
		return session, nil, err
	}
	h.begun, h.session, h.result = true, session, result
	return session, result, nil
}

func (s *sessions) entry(key sessionKey) *heldSession {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[key]
	if h == nil {
		if len(s.held) >= maxSessions {
			s.evict(now)
		}
		h = new(heldSession)
		s.held[key] = h
	}
	h.used.Store(now.UnixNano())
	return h
}

// evict forgets sessions that were not used lately, and any others if there are too many.
// Their servers end them by themselves.
func (s *sessions) evict(now time.Time) {
	limit := now.Add(-sessionIdle).UnixNano()
	for key, h := range s.held {
		if h.used.Load() < limit {
			delete(s.held, key)
		}
	}
	for key := range s.held {
		if len(s.held) < maxSessions {
			return
		}
		delete(s.held, key)
	}
}

// lose forgets a session that its server does not know any more.
func (s *sessions) lose(key sessionKey, lost peer.Session) {
	s.mu.Lock()
	h := s.held[key]
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.Lock()
	defer h.Unlock()
	if h.begun && h.session == lost {
		h.begun = false
	}
}

// greet asks a server what it is.
func (s *sessions) greet(ctx context.Context, server *toolserver.Server, cred peer.Credential) (*hello, error) {
	era, err := s.peers.Era(ctx, server, cred)
	if err != nil {
		return nil, err
	}
	h := &hello{era: era}
	var raw []byte
	if era == peer.Modern {
		raw, err = s.ask(ctx, server, cred, "server/discover", []byte("{}"))
	} else {
		_, raw, err = s.open(ctx, keyOf(server, cred, ownHolder), server, cred, s.own)
	}
	if err != nil {
		return nil, err
	}
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		return nil, errors.New("the server described itself with something that is not an object")
	}
	h.raw = raw
	if caps, ok := doc.Find("capabilities"); ok && caps.Kind() == jsonedit.Object {
		h.capabilities = make(map[string]bool)
		for name := range caps.Fields() {
			h.capabilities[name.String()] = true
		}
		extensions, _ := caps.Get("extensions")
		h.extensions = make(map[string]bool)
		for name := range extensions.Fields() {
			h.extensions[name.String()] = true
		}
	}
	if text, ok := doc.Find("instructions"); ok {
		h.instructions, _ = text.Text()
	}
	return h, nil
}

// ask sends a request of the gateway's own, and returns its result. A session that was lost
// begins again once. An error that the server answers is an *answerError.
func (s *sessions) ask(ctx context.Context, server *toolserver.Server, cred peer.Credential, method string, params []byte) ([]byte, error) {
	era, err := s.peers.Era(ctx, server, cred)
	if err != nil {
		return nil, err
	}
	key := keyOf(server, cred, ownHolder)
	for try := 0; ; try++ {
		call := &peer.Call{Server: server, Credential: cred, Client: s.own, Method: method}
		if era == peer.Modern {
			params = s.addMeta(params)
		} else if call.Session, _, err = s.open(ctx, key, server, cred, s.own); err != nil {
			return nil, err
		}
		call.Message = s.request(method, params)
		reply, err := s.peers.Send(ctx, call)
		if f, ok := errors.AsType[*peer.Failure](err); ok && f.Kind == peer.SessionLost && try == 0 {
			s.lose(key, call.Session)
			continue
		}
		if err != nil {
			return nil, err
		}
		return readResult(reply)
	}
}

// newID returns an id for a request that no other request of the process has.
func (s *sessions) newID() string { return "modelgate-" + strconv.FormatInt(s.next.Add(1), 36) }

// has reports whether a session is in memory.
func (s *sessions) has(key sessionKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] != nil
}

// request returns a request with an id of its own.
func (s *sessions) request(method string, params []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("id")
	b.String(s.newID())
	b.Name("method")
	b.String(method)
	b.Name("params")
	b.Raw(params)
	b.Close('}')
	return b.Bytes()
}

// Names in _meta of the modern era.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaInfo         = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// addMeta adds what the modern era demands of each request.
func (s *sessions) addMeta(params []byte) []byte {
	var doc jsonedit.Doc
	if err := doc.Scan(params); err != nil {
		panic(err) // they are our own
	}
	return doc.Apply(nil, jsonedit.Edit{Name: "_meta", Value: modernMeta(s.own)})
}

// modernMeta returns the _meta of a request of the modern era.
func modernMeta(by peer.Client) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name(metaVersion)
	b.String(peer.ModernVersion)
	b.Name(metaCapabilities)
	b.Raw(orEmpty(by.Capabilities))
	if by.Info != nil {
		b.Name(metaInfo)
		b.Raw(by.Info)
	}
	b.Close('}')
	return b.Bytes()
}

func orEmpty(object []byte) []byte {
	if object == nil {
		return []byte("{}")
	}
	return object
}
