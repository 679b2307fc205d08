package server

import (
	"context"

	"modelgate/internal/logstore"
	"modelgate/internal/snapshot"
)

// kept is how much is kept of exchanges.
func (s *Server) kept() snapshot.LogPolicy { return s.holder.Load().Logs }

// sum sums what was recorded before.
func (s *Server) sum(ctx context.Context, q logstore.GroupQuery) ([]logstore.Group, error) {
	if err := s.flushLog(ctx); err != nil {
		return nil, err
	}
	return s.logs.Groups(ctx, q)
}
