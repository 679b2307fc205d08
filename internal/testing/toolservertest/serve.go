package toolservertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// serve answers a request as a server that follows the protocol.
func (s *Server) serve(x *Exchange) {
	switch {
	case x.R.URL.Path == "/sse" || x.R.URL.Path == "/messages":
		s.serveOld(x)
	case x.R.URL.Path != "/mcp":
		http.NotFound(x.W, x.R)
	case x.R.Method != http.MethodPost && s.NoLegacy:
		x.W.WriteHeader(http.StatusMethodNotAllowed)
	case isModern(x.R):
		s.serveModern(x)
	case s.NoLegacy:
		x.Fail(http.StatusBadRequest, -32022, "unsupported version", `{"supported":["2026-07-28"],"requested":"none"}`)
	default:
		s.serveLegacy(x)
	}
}

// serveModern checks the headers of a request of the modern era and answers it.
func (s *Server) serveModern(x *Exchange) {
	version := x.R.Header.Get("Mcp-Protocol-Version")
	if s.NoModern {
		// As servers do that expect a session.
		x.Fail(http.StatusBadRequest, -32000, "Bad Request: No valid session ID provided", "")
		return
	}
	if version != "2026-07-28" {
		x.Fail(http.StatusBadRequest, -32022, "unsupported version", fmt.Sprintf(`{"supported":["2026-07-28"],"requested":%q}`, version))
		return
	}
	if x.R.Header.Get("Mcp-Method") != x.Message.Method {
		x.Fail(http.StatusBadRequest, -32020, "Mcp-Method differs from the body", "")
		return
	}
	switch x.Message.Method {
	case "tools/call", "prompts/get", "resources/read", "tasks/get", "tasks/update", "tasks/cancel":
		if name, ok := decodeHeader(x.R.Header.Get("Mcp-Name")); !ok || name != x.Name() {
			x.Fail(http.StatusBadRequest, -32020, "Mcp-Name differs from the body", "")
			return
		}
	}
	if len(x.Message.ID) == 0 {
		x.W.WriteHeader(http.StatusAccepted)
		x.answered = true
		return
	}
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	json.Unmarshal(x.Message.Params, &p)
	for _, name := range []string{"protocolVersion", "clientCapabilities"} {
		if p.Meta["io.modelcontextprotocol/"+name] == nil {
			x.Fail(http.StatusBadRequest, -32602, "_meta has no "+name, "")
			return
		}
	}
	if x.Message.Method == "server/discover" {
		x.Result(fmt.Sprintf(`{"supportedVersions":["2026-07-28"],"capabilities":%s,"instructions":%q,"ttlMs":%d,"cacheScope":%q,"_meta":{"io.modelcontextprotocol/serverInfo":%s}}`,
			s.Capabilities, s.Instructions, s.TTL, s.Scope, s.info()))
		return
	}
	s.answer(x)
}

// decodeHeader returns the value of a header that may be encoded.
func decodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
	return string(plain), err == nil
}

// serveLegacy finds the session of a request of the legacy era and answers it.
func (s *Server) serveLegacy(x *Exchange) {
	if x.Message.Method == "initialize" {
		s.initialize(x)
		return
	}
	if !s.NoIDs {
		id := x.R.Header.Get("Mcp-Session-Id")
		s.mu.Lock()
		x.session = s.sessions[id]
		s.mu.Unlock()
		if id == "" {
			x.Fail(http.StatusBadRequest, -32000, "Bad Request: Mcp-Session-Id header is required", "")
			return
		}
		if x.session == nil {
			x.Fail(http.StatusNotFound, -32001, "Session not found", "")
			return
		}
	}
	switch {
	case x.R.Method == http.MethodGet:
		s.listen(x)
	case x.R.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, x.R.Header.Get("Mcp-Session-Id"))
		s.mu.Unlock()
	case x.Message.Method == "":
		s.receive(x)
		x.W.WriteHeader(http.StatusAccepted)
	case len(x.Message.ID) == 0:
		x.W.WriteHeader(http.StatusAccepted)
	default:
		s.answer(x)
	}
}

// receive passes on the response of a client.
func (s *Server) receive(x *Exchange) {
	x.answered = true
	id, err := strconv.Unquote(string(x.Message.ID))
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.waiting[id]; err == nil && waiting != nil {
		delete(s.waiting, id)
		waiting <- x.Message
	}
}

// initialize begins a session.
func (s *Server) initialize(x *Exchange) {
	var p struct{ ProtocolVersion string }
	json.Unmarshal(x.Message.Params, &p)
	version := s.Version
	if version == "" {
		version = p.ProtocolVersion
	}
	if !s.NoIDs && x.session == nil {
		s.begin(x)
	}
	x.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s,"instructions":%q}`,
		version, s.Capabilities, s.info(), s.Instructions))
}

// begin gives the client a session.
func (s *Server) begin(x *Exchange) {
	began := &session{id: "session-" + s.number(), streams: map[*stream]bool{}}
	s.mu.Lock()
	s.sessions[began.id] = began
	s.mu.Unlock()
	x.W.Header().Set("Mcp-Session-Id", began.id)
}

func (s *Server) info() string { return fmt.Sprintf(`{"name":%q,"version":"1.0.0"}`, s.Name) }

// listen serves the stream of a session.
func (s *Server) listen(x *Exchange) {
	if s.NoStream {
		x.W.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	st := x.stream()
	if x.session != nil {
		s.mu.Lock()
		x.session.streams[st] = true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(x.session.streams, st)
			s.mu.Unlock()
		}()
	}
	select {
	case <-x.R.Context().Done():
	case <-st.ended:
	}
}

// answer answers a request of either era.
func (s *Server) answer(x *Exchange) {
	switch x.Message.Method {
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		x.Result(`{}`)
	case "tools/list":
		s.list(x, "tools", s.Tools)
	case "prompts/list":
		s.list(x, "prompts", s.Prompts)
	case "resources/list":
		s.list(x, "resources", s.Resources)
	case "resources/templates/list":
		s.list(x, "resourceTemplates", s.Templates)
	case "tools/call":
		s.call(x)
	case "prompts/get":
		s.getPrompt(x)
	case "resources/read":
		s.read(x)
	case "completion/complete":
		x.Result(`{"completion":{"values":["one","two"]}}`)
	default:
		status := http.StatusOK
		if isModern(x.R) {
			status = http.StatusNotFound
		}
		x.Fail(status, -32601, "Method not found", "")
	}
}

// list answers with a page of definitions.
func (s *Server) list(x *Exchange, name string, definitions []string) {
	var p struct{ Cursor string }
	json.Unmarshal(x.Message.Params, &p)
	from, err := strconv.Atoi(p.Cursor)
	if p.Cursor != "" && (err != nil || from < 0 || from > len(definitions)) {
		x.Fail(http.StatusBadRequest, -32602, "unknown cursor", "")
		return
	}
	page, next := definitions[from:], ""
	if s.PageSize > 0 && len(page) > s.PageSize {
		page, next = page[:s.PageSize], fmt.Sprintf(`,"nextCursor":"%d"`, from+s.PageSize)
	}
	if isModern(x.R) {
		next += fmt.Sprintf(`,"ttlMs":%d,"cacheScope":%q`, s.TTL, s.Scope)
	}
	x.Result(fmt.Sprintf(`{%q:[%s]%s}`, name, strings.Join(page, ","), next))
}

// has reports whether one of the definitions has a value in a member.
func has(definitions []string, member, value string) bool {
	return slices.ContainsFunc(definitions, func(d string) bool {
		var fields map[string]json.RawMessage
		json.Unmarshal([]byte(d), &fields)
		var text string
		json.Unmarshal(fields[member], &text)
		return text == value
	})
}
