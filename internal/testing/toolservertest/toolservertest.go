// Package toolservertest is an MCP server for tests. It speaks both eras over streamable HTTP,
// and the older HTTP with server-sent events, without code of the gateway or of an SDK.
//
// It counts and keeps what it receives, and misbehaves as a test scripts it: see
// [Server.Handle] and the faults, such as [Hang] and [Status].
package toolservertest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
)

// Server is a tool server. Its fields may be changed while no request is served.
type Server struct {
	URL string // of streamable HTTP; see also SSEURL

	NoModern bool // it does not speak the modern era
	NoLegacy bool // it does not speak the legacy era
	NoStream bool // GET is answered with 405
	NoIDs    bool // sessions have no id
	JSON     bool // requests are answered with JSON; otherwise with a stream of one event

	Version      string // that initialize answers; empty is the requested one, up to 2025-11-25
	Capabilities string // JSON
	Instructions string
	Name         string // of serverInfo

	// Definitions, as JSON objects. New sets a few.
	Tools, Prompts, Resources, Templates []string
	PageSize                             int    // of lists; zero is all at once
	TTL                                  int    // ttlMs of lists of the modern era
	Scope                                string // cacheScope of lists of the modern era

	http *httptest.Server

	mu       sync.Mutex
	handlers map[string]Handler  // guarded by mu, as are the fields below
	sessions map[string]*session // by id
	counts   map[string]int
	requests []Request
	waiting  map[string]chan Message // for responses of the client, by id
	last     int                     // number given to a session or a request
}

// session is what the server remembers of a client of the legacy era.
type session struct {
	id      string
	streams map[*stream]bool // guarded by Server.mu
}

// Request is a request that the server received.
type Request struct {
	HTTP    string // method of HTTP
	Client  string // address of the client's end of the connection
	Header  http.Header
	Message Message // zero for a request without a body
}

// Message is a message of JSON-RPC.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Raw    []byte          `json:"-"`
}

// New starts a server with the tools echo, add, slow and fail, a prompt, a resource and a
// template. It ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Capabilities: `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`,
		Name:         "toolservertest", Tools: defaultTools, Prompts: defaultPrompts, Resources: defaultResources, Templates: defaultTemplates,
		TTL: 60_000, Scope: "public",
		handlers: map[string]Handler{}, sessions: map[string]*session{}, counts: map[string]int{}, waiting: map[string]chan Message{},
	}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL + "/mcp"
	t.Cleanup(s.Close)
	return s
}

// SSEURL returns the address of the older HTTP with server-sent events.
func (s *Server) SSEURL() string { return s.http.URL + "/sse" }

// Close breaks all connections and stops the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Break breaks all connections; the server goes on.
func (s *Server) Break() { s.http.CloseClientConnections() }

// Handle sets what the server does with a method of JSON-RPC, with "tools/call NAME" for one
// tool, or with POST, GET or DELETE. Nil is what it does usually.
func (s *Server) Handle(method string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[method] = h
}

// LoseSessions makes the server forget all sessions, as a restart does.
func (s *Server) LoseSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.sessions {
		for st := range old.streams {
			st.end()
		}
		delete(s.sessions, id)
	}
}

// Notify sends a message to all open streams of sessions, and returns to how many.
func (s *Server) Notify(message string) (streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		for st := range session.streams {
			st.send(message)
			streams++
		}
	}
	return streams
}

// Count returns how often something was received: a method of HTTP or of JSON-RPC,
// "tools/call NAME", "response" for responses of the client, or "left" for requests whose
// client left before the response.
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

// Sessions returns how many sessions the server remembers.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Requests returns the requests with a method of JSON-RPC, and all for an empty one, in the
// order in which they arrived.
func (s *Server) Requests(method string) (found []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if method == "" || r.Message.Method == method {
			found = append(found, r)
		}
	}
	return found
}

// count adds to the counts.
func (s *Server) count(what ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range what {
		s.counts[w]++
	}
}

// number returns a number that was not given before.
func (s *Server) number() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return strconv.Itoa(s.last)
}

// handler returns the scripted handler of the first of these names that has one.
func (s *Server) handler(names ...string) Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if h := s.handlers[name]; h != nil {
			return h
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &Exchange{W: w, R: r, server: s}
	if r.Method == http.MethodPost {
		x.Message.Raw, _ = io.ReadAll(r.Body)
		if err := json.Unmarshal(x.Message.Raw, &x.Message); err != nil {
			http.Error(w, "not JSON", http.StatusBadRequest)
			return
		}
	}
	names := x.names()
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.RemoteAddr, r.Header.Clone(), x.Message})
	s.mu.Unlock()
	s.count(names...)
	if r.URL.Path == "/messages" && !s.acceptOld(x) {
		return
	}
	if h := s.handler(names...); h != nil {
		h(x)
	} else {
		x.Default()
	}
	x.finish()
}

// names returns what a request is called in scripts and counts, the most exact one first.
func (x *Exchange) names() []string {
	switch m := &x.Message; {
	case x.R.Method != http.MethodPost:
		return []string{x.R.Method}
	case m.Method == "":
		return []string{"response", x.R.Method}
	case x.Name() != "":
		return []string{m.Method + " " + x.Name(), m.Method, x.R.Method}
	default:
		return []string{m.Method, x.R.Method}
	}
}

// isModern reports whether a request is one of the modern era.
func isModern(r *http.Request) bool { return r.Header.Get("Mcp-Protocol-Version") > "2026" }
