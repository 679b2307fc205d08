package server

import (
	"context"

	"modelgate/internal/records/logstore"
	"modelgate/internal/snapshot"
)

// logPolicy returns the current logging policy.
func (s *Server) logPolicy() snapshot.LogPolicy { return s.holder.Load().Logs }

// sum groups log entries.
func (s *Server) sum(ctx context.Context, q logstore.GroupQuery) ([]logstore.Group, error) {
	if err := s.flushLog(ctx); err != nil {
		return nil, err
	}
	return s.logs.Groups(ctx, q)
}
