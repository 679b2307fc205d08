package server

import (
	"context"

	"modelgate/internal/logstore"
)

// sum sums what was recorded before.
func (s *Server) sum(ctx context.Context, q logstore.SumQuery) ([]logstore.Sum, error) {
	if err := s.flushLog(ctx); err != nil {
		return nil, err
	}
	return s.logs.Sum(ctx, q)
}
