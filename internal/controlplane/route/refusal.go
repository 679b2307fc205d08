package route

import (
	"errors"
	"sync"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/jwt"
)

// Token returns what a JSON Web Token of the caller's organisation proves. One of
// another is not there.
func (c *Caller) Token(text string) (*access.Identity, error) {
	none := apierr.New(apierr.NotFound, "there is no such token")
	if c.api.Token == nil {
		return nil, none
	}
	id, err := c.api.Token(text)
	if refused, ok := errors.AsType[*jwt.RejectedError](err); ok && refused.Organisation != c.Organisation {
		return nil, none
	}
	if err == nil && id.Organisation != c.Organisation {
		return nil, none
	}
	return id, err
}

// noteRefusal has the audit log told of a token that was refused, on routes too
// that change nothing. Strangers can send them, so the log takes some a minute.
func (c *Caller) noteRefusal(err error) {
	token, ok := errors.AsType[*jwt.RejectedError](err)
	if !ok || !c.api.refusals.take(c.Now) {
		return
	}
	c.refused = true
	c.audit.Organisation, c.audit.ResourceType = token.Organisation, "token"
}

// refusals counts what was noted in the current minute. The zero value is ready;
// it is safe for concurrent use.
type refusals struct {
	mu     sync.Mutex
	minute time.Time // guarded by mu
	count  int       // guarded by mu
}

// perMinute bounds the refused tokens that the audit log takes.
const perMinute = 60

// take reports whether another is noted.
func (r *refusals) take(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(r.minute) {
		r.minute, r.count = minute, 0
	}
	r.count++
	return r.count <= perMinute
}
