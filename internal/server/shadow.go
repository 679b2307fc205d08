package server

import (
	"context"
	"modelgate/internal/pipeline/guarding"
	"sync"
	"time"

	"modelgate/internal/guardrail"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// Limits of the results that are stored of guardrails in shadow mode: of each version
// and verdict, so many at once and then one in each interval. The next stored result
// counts for those that were not.
const (
	shadowBurst    = 60
	shadowInterval = time.Second
	maxShadowKinds = 10_000 // versions and verdicts that are counted at a time
)

// shadowSampler chooses the results that are stored. It is safe for concurrent use.
type shadowSampler struct {
	mu    sync.Mutex
	kinds map[shadowKind]*shadowCount // guarded by mu
}

type shadowKind struct{ organisation, workspace, version, event, verdict string }

type shadowCount struct {
	left   float64 // results that may be stored at once
	at     time.Time
	weight int64 // of the next one
}

// take counts a result and returns its weight; 0 means that it is not stored.
func (s *shadowSampler) take(k shadowKind, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.kinds[k]
	if c == nil {
		if s.kinds == nil || len(s.kinds) >= maxShadowKinds {
			s.kinds = make(map[shadowKind]*shadowCount)
		}
		c = &shadowCount{left: shadowBurst, at: now}
		s.kinds[k] = c
	}
	c.left = min(shadowBurst, c.left+now.Sub(c.at).Seconds()/shadowInterval.Seconds())
	c.at = now
	c.weight++
	if c.left < 1 {
		return 0
	}
	c.left--
	weight := c.weight
	c.weight = 0
	return weight
}

// addShadowResults stores results of saved guardrails that observe only.
func (s *Server) addShadowResults(ctx context.Context, e *reqlog.Entry, list []guarding.ShadowResult) {
	if s.logs == nil || e.Organisation == "" {
		return
	}
	now := time.Now()
	var rows []logstore.GuardResult
	for _, one := range list {
		r := logstore.GuardResult{
			ID: reqlog.NewID(now), Organisation: e.Organisation, Workspace: e.Workspace, Guardrail: one.Result.ID, Version: one.Result.VersionID,
			Entry: e.ID, Event: "request", Verdict: shadowVerdict(&one.Result), Took: one.Result.Took, Created: now,
		}
		if one.On == guardrail.After {
			r.Event = "response"
		}
		if r.Weight = s.shadows.take(shadowKind{r.Organisation, r.Workspace, r.Version, r.Event, r.Verdict}, now); r.Weight > 0 {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return
	}
	if err := s.logs.AddGuardResults(ctx, rows); err != nil {
		s.Logger.Warn("results of a shadow guardrail could not be stored", "exchange", e.ID.String(), "err", err)
	}
}

// shadowVerdict returns the verdict of a guardrail: failed if it would have acted, as
// it also does by changing the text.
func shadowVerdict(h *guardrail.HookResult) string {
	switch {
	case !h.Verdict || h.Transformed:
		return logstore.GuardFailed
	default:
		for _, c := range h.Checks {
			if c.Error != nil {
				return logstore.GuardError
			}
		}
		return logstore.GuardPassed
	}
}
