package toolservertest

import "net/http"

// isOld reports whether a session is one of the older HTTP with server-sent events, whose
// messages come on one stream.
func (s *session) isOld() bool { return s != nil && s.id != "" && s.id[0] == 'o' }

// sendOld sends a message on the stream of a session.
func (s *Server) sendOld(to *session, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range to.streams {
		st.send(message)
	}
}

// acceptOld accepts a message of a session, and reports false if the session is unknown.
func (s *Server) acceptOld(x *Exchange) bool {
	s.mu.Lock()
	x.session = s.sessions[x.R.URL.Query().Get("session")]
	s.mu.Unlock()
	if x.session == nil {
		http.Error(x.W, "unknown session", http.StatusNotFound)
		return false
	}
	x.W.WriteHeader(http.StatusAccepted)
	x.W.(http.Flusher).Flush()
	return true
}

// serveOld serves the older HTTP with server-sent events: a stream whose first event is the
// address for messages, and messages that are answered on the stream.
func (s *Server) serveOld(x *Exchange) {
	switch {
	case x.R.Method == http.MethodGet:
		s.listenOld(x)
	case x.Message.Method == "initialize":
		s.initialize(x)
	case x.Message.Method == "":
		s.receive(x)
	case len(x.Message.ID) > 0:
		s.answer(x)
	}
}

// listenOld begins a session and serves its stream.
func (s *Server) listenOld(x *Exchange) {
	began := &session{id: "old-" + s.number(), streams: map[*stream]bool{}}
	st := x.stream()
	s.mu.Lock()
	s.sessions[began.id] = began
	began.streams[st] = true
	s.mu.Unlock()
	st.write("event: endpoint\ndata: /messages?session=" + began.id + "\n\n")
	select {
	case <-x.R.Context().Done():
	case <-st.ended:
	}
	s.mu.Lock()
	delete(s.sessions, began.id)
	s.mu.Unlock()
}
