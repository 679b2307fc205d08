package server

import (
	"context"
	"math"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// auditPruneEvery is the interval of pruning the audit log. In between the gateway
// checks every minute whether 1/32 of the limit was added.
const auditPruneEvery = time.Hour

// AuditPruning returns what to remove from the audit log. Fields of r that are not
// positive retain all.
func AuditPruning(r settings.AuditRetention, destinations []string) store.AuditPruning {
	return store.AuditPruning{Age: time.Duration(max(r.Days, 0)) * 24 * time.Hour, Bytes: int64(r.Bytes), Destinations: destinations}
}

// AuditSigner returns the signer of removals from the audit log, nil without a master
// key.
func AuditSigner(db *store.DB, box *secret.Box) store.Signer {
	if box == nil {
		return nil
	}
	return datakey.New(db, box)
}

// pruneAudits prunes the audit log until ctx ends. Gateways that share a database take
// turns.
func (s *Server) pruneAudits(ctx context.Context) {
	if s.Off[route.AuditLogs] {
		return
	}
	clock, seen, grown, pruned := time.Now().Round(0), make(map[string]int64), int64(math.MaxInt64), time.Time{}
	failed := false
	for ; ctx.Err() == nil; pause(ctx, time.Minute) {
		clock = logstore.FollowClock(clock, time.Now().Round(0))
		set := s.current().settings
		if set == nil || !s.store.Ready() {
			continue
		}
		limit := set.Audit.Retention.Effective()
		n, err := s.store.AuditGrowth(ctx, seen)
		if grown += min(n, math.MaxInt64-grown); err == nil && (grown > int64(limit.Bytes)/32 || time.Since(pruned) > auditPruneEvery) {
			p := AuditPruning(limit, set.Audit.Destinations())
			p.Now, p.Signer = clock, AuditSigner(s.store, s.box)
			var sum store.AuditPruned
			sum, err = s.store.PruneAudits(ctx, p)
			s.metrics.auditsPruned.Add(float64(sum.Rows))
			grown, pruned = 0, time.Now()
		}
		if err != nil && !failed && ctx.Err() == nil {
			s.Logger.Error("removal of old audit rows failed; retrying", "err", err.Error())
		}
		failed = err != nil
	}
}
