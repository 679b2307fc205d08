package server

import (
	"net/http"
	"time"

	"modelgate/internal/access"
)

// authenticate finds who sends a request to the control plane.
func (s *Server) authenticate(r *http.Request) (*access.Identity, error) {
	id, _, err := s.holder.Load().Authenticate(r.Header, time.Now())
	return id, err
}
