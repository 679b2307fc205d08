package sessions

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Anyone can cause failed sign-ins, which must not fill the audit log. In each
// failureWindow the first failureRows pairs of account and address have one event at
// once and one at the end with the number of further failures. All other pairs share
// one event.
const (
	failureWindow = 10 * time.Minute
	failureRows   = 20 // per organisation
)

// failures counts failed sign-ins for the audit log.
type failures struct {
	mu    sync.Mutex
	began time.Time                   // start of the window; guarded by mu
	by    map[string]map[pair]*failed // by organisation; guarded by mu
}

// pair is an account, whose id is empty if unknown, and an address. The zero value
// stands for all pairs beyond failureRows.
type pair struct{ user, address string }

// failed counts the failures of a pair after its first event. Failures of unknown
// accounts belong to the first organisation.
type failed struct {
	Wrong   int64     `json:"wrong_passwords"`
	Refused int64     `json:"refused"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
}

func (f *failed) count(refused bool, now time.Time) {
	if f.From.IsZero() {
		f.From = now
	}
	f.Until = now
	if refused {
		f.Refused++
		return
	}
	f.Wrong++
}

// note counts a failure and writes its event if it is the first of a pair.
func (f *failures) note(ctx context.Context, c *route.Caller, a *account, refused bool) {
	organisation := a.organisation
	if organisation == "" {
		organisation = store.DefaultOrganisation
	}
	p := pair{a.user.ID, people.AddressGroup(c.ClientIP())}
	if !f.count(organisation, p, refused, c.Now) {
		return
	}
	var one failed
	one.count(refused, c.Now)
	row := failureRow(organisation, p, &one, c.Now)
	row.RequestID, row.ClientIP, row.RequestHeaders = c.RequestID, c.ClientIP(), object("User-Agent", c.UserAgent())
	c.RecordEvent(ctx, row)
}

// count reports whether a failure gets an event at once.
func (f *failures) count(organisation string, p pair, refused bool, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by, f.began = make(map[string]map[pair]*failed), now
	}
	pairs := f.by[organisation]
	if pairs == nil {
		pairs = make(map[pair]*failed)
		f.by[organisation] = pairs
	}
	if one := pairs[p]; one != nil {
		one.count(refused, now)
		return false
	}
	if len(pairs) < failureRows {
		pairs[p] = new(failed)
		return true
	}
	rest := pairs[pair{}]
	if rest == nil {
		rest = new(failed)
		pairs[pair{}] = rest
	}
	rest.count(refused, now)
	return false
}

// sums returns the closing events of a window that is over at now, or of every window
// if last is set because the gateway stops.
func (f *failures) sums(now time.Time, last bool) (list []*store.Audit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !last && now.Sub(f.began) < failureWindow {
		return nil
	}
	for organisation, pairs := range f.by {
		for p, one := range pairs {
			if one.Wrong+one.Refused > 0 {
				list = append(list, failureRow(organisation, p, one, now))
			}
		}
	}
	f.by = nil
	return list
}

func failureRow(organisation string, p pair, f *failed, now time.Time) *store.Audit {
	status := 401
	if f.Wrong == 0 {
		status = 429
	}
	body, err := json.Marshal(f)
	if err != nil {
		body = []byte("null")
	}
	return &store.Audit{
		ID: reqlog.NewID(now).String(), Organisation: organisation, Time: now, Method: "POST", URI: "/v1/auth/login",
		QueryParams: "{}", RequestHeaders: "{}", RequestBody: string(body), UserType: "user", Status: status,
		ResourceType: "session", ResourceID: p.user, Action: "sign_in_failed", ClientIP: p.address,
	}
}

func object(name, value string) string {
	b, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		return "{}"
	}
	return string(b)
}
