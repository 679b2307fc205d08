package pipeline

import (
	"sync"
	"sync/atomic"

	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
)

// requestQuota holds what a request has reserved of the limits that count it
// once, however many attempts it makes. It is safe for concurrent use.
type requestQuota struct {
	mu        sync.Mutex
	counted   []string          // counters that have the request; guarded by mu
	grants    []quota.Grant     // guarded by mu
	places    []quota.Grant     // in limits of requests in progress; guarded by mu
	by        uint16            // number of the last attempt that added to grants or places; guarded by mu
	abandoned bool              // by the client, when a provider had an attempt; guarded by mu
	log       []reqlog.LimitUse // guarded by mu
	sent      atomic.Int32      // attempts that a provider may have received, or the gateway answers
}

// abandon makes the request count, however it ends.
func (q *requestQuota) abandon() {
	q.mu.Lock()
	q.abandoned = true
	q.mu.Unlock()
}

// record adds what an attempt reserved and used to the log.
func (q *requestQuota) record(l *quota.Limit, attempt uint16, reserved, used int64, refused bool) {
	if len(q.log) < reqlog.MaxLimits {
		q.log = append(q.log, reqlog.LimitUse{
			Attempt: int(attempt), Holder: l.Holder.Kind, ID: l.Holder.ID, Measure: l.Measure.String(), Unit: l.Unit(),
			Reserved: reserved, Used: used, Refused: refused,
		})
	}
}

// refuse adds limits that refused a request before its first attempt to the log.
func (q *requestQuota) refuse(claims []quota.Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range claims {
		q.record(c.Limit, 0, 0, 0, true)
	}
}
