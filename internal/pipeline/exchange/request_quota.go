package exchange

import (
	"sync"
	"sync/atomic"

	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
)

// RequestQuota holds what a request has reserved of the limits that count it
// once, however many attempts it makes. It is safe for concurrent use.
type RequestQuota struct {
	Mu        sync.Mutex
	Counted   []string          // counters that have the request; guarded by Mu
	Grants    []quota.Grant     // guarded by Mu
	Places    []quota.Grant     // in limits of requests in progress; guarded by Mu
	By        uint16            // number of the last attempt that added to grants or places; guarded by Mu
	Abandoned bool              // by the client, when a provider had an attempt; guarded by Mu
	Log       []reqlog.LimitUse // guarded by Mu
	Sent      atomic.Int32      // attempts that a provider may have received, or the gateway answers
}

// Abandon makes the request count, however it ends.
func (q *RequestQuota) Abandon() {
	q.Mu.Lock()
	q.Abandoned = true
	q.Mu.Unlock()
}

// Record adds what an attempt reserved and used to the log.
func (q *RequestQuota) Record(l *quota.Limit, attempt uint16, reserved, used int64, refused bool) {
	if len(q.Log) < reqlog.MaxLimits {
		q.Log = append(q.Log, reqlog.LimitUse{
			Attempt: int(attempt), Holder: l.Holder.Kind, ID: l.Holder.ID, Measure: l.Measure.String(), Unit: l.Unit(),
			Reserved: reserved, Used: used, Refused: refused,
		})
	}
}

// Refuse adds limits that refused a request before its first attempt to the log.
func (q *RequestQuota) Refuse(claims []quota.Claim) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for _, c := range claims {
		q.Record(c.Limit, 0, 0, 0, true)
	}
}
