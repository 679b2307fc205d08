package route

import (
	"errors"
	"sync"
	"time"

	"modelgate/internal/identity/jwt"
)

// noteRefusal records a rejected token in the audit log, for routes that make no
// changes too. Anyone can send such tokens, so the number per minute is limited.
func (c *Caller) noteRefusal(err error) {
	token, ok := errors.AsType[*jwt.RejectedError](err)
	if !ok || !c.api.refusals.take(c.Now) {
		return
	}
	c.refused = true
	c.audit.Organisation, c.audit.ResourceType = token.Organisation, "token"
}

// refusals counts the rejections recorded in the current minute. The zero value is
// ready to use; it is safe for concurrent use.
type refusals struct {
	mu     sync.Mutex
	minute time.Time // guarded by mu
	count  int       // guarded by mu
}

// perMinute is the limit of rejected tokens recorded in a minute.
const perMinute = 60

// take reports whether another rejection may be recorded.
func (r *refusals) take(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(r.minute) {
		r.minute, r.count = minute, 0
	}
	r.count++
	return r.count <= perMinute
}
