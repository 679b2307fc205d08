package server

import (
	"context"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// promptCacheSaved returns what prompt caches of providers have saved of the requests
// with the key, the workspace and the saved config of e, in the last 30 days. Without
// a log or a key it is zero.
func (s *Server) promptCacheSaved(ctx context.Context, e *reqlog.Entry) (saved catalog.NanoDollars, err error) {
	if s.logs == nil || e.KeyID == "" {
		return 0, nil
	}
	if err := s.flushLog(ctx); err != nil {
		return 0, err
	}
	now := time.Now()
	groups, err := s.logs.Groups(ctx, logstore.GroupQuery{
		Scope: logstore.Scope{Organisation: e.Organisation, Workspace: e.Workspace, Keys: []string{e.KeyID}},
		From:  now.AddDate(0, 0, -30), To: now.Add(time.Minute),
		Is: map[logstore.Field][]string{logstore.ByConfig: {e.Config}},
	})
	for i := range groups {
		saved += groups[i].Saved.Prompt
	}
	return saved, err
}
