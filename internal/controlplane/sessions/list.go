package sessions

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// addMembers adds the routes with which admins list and end the sessions of other
// users.
func (f *family) addMembers(a *route.API) {
	r := route.Family{Path: "/admin/users/{user}/sessions", Tag: "Users", Scopes: []string{"organisation_users"}, Resource: "session"}
	route.Add(a, r.Route(http.MethodGet, "", "list-user-sessions", "read", "List the sessions of a user"), f.listOf)
	route.Add(a, r.Route(http.MethodDelete, "", "end-user-sessions", "update", "End all sessions of a user"), endAllOf)
	route.Add(a, r.Route(http.MethodDelete, "/{session}", "end-user-session", "update", "End a session of a user"), endOf)
}

type item struct {
	Object     string     `json:"object"`
	ID         string     `json:"id"`
	CreatedAt  route.Time `json:"created_at"`
	LastUsedAt route.Time `json:"last_used_at" doc:"At most a minute before the last use"`
	ExpiresAt  route.Time `json:"expires_at" doc:"Unless it is used again"`
	Address    string     `json:"address" doc:"Address of the client that used it last"`
	UserAgent  string     `json:"user_agent" doc:"User agent of the client that signed in; at most 200 bytes"`
	Method     string     `json:"method" enum:"password,sso,passkey,operator,device" doc:"How the user signed in"`
	Pending    *string    `json:"pending" enum:"second_factor,enrolment" doc:"What the session waits for; null for nothing"`
	Factor     *string    `json:"second_factor" doc:"The second factor that was proved: passkey, one_time_code, recovery_code, or sso if the identity provider asked for it; null for none"`
	Provider   *string    `json:"identity_provider_id" doc:"Where the user signed in; null without an identity provider"`
	Current    bool       `json:"current" doc:"Whether it is the session of this request"`
}

// ends returns when a session expires unless it is used again.
func ends(s *store.Session, l Lifetimes) time.Time {
	at := l.Ends(s.CreatedAt, s.LastUsedAt)
	if s.Pending != "" {
		return people.PendingEnd(*s)
	}
	if s.ExpiresAt.Before(at) {
		return s.ExpiresAt
	}
	return at
}

// list returns a page of the active sessions of a user.
func (f *family) list(ctx context.Context, c *route.Caller, user string, p route.LongPaging) (*route.List[item], error) {
	found, err := c.DB().Sessions(ctx, c.Organisation, user)
	if err != nil {
		return nil, err
	}
	var items []item
	for _, s := range found {
		end := ends(&s, f.deps.lifetimes())
		if !c.Now.Before(end) {
			continue
		}
		items = append(items, item{
			"session", s.ID, route.Time(s.CreatedAt), route.Time(s.LastUsedAt), route.Time(end), s.Address, s.UserAgent,
			s.Method, route.OrNull(s.Pending), route.OrNull(s.Factor), route.OrNull(s.Provider), s.Hash == c.Hash.String(),
		})
	}
	return route.PageOf(items, p, nil, func(i item) item { return i })
}

// checkSession returns an error unless the caller uses a session.
func checkSession(c *route.Caller) error {
	if c.Type == access.Session {
		return nil
	}
	return apierr.New(apierr.Forbidden, "a session is required; keys cannot be used here").WithCode("AB03")
}

type ownSessionsInput struct{ route.LongPaging }

func (f *family) listOwnSessions(ctx context.Context, c *route.Caller, in *ownSessionsInput) (*route.List[item], error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	return f.list(ctx, c, c.UserID, in.LongPaging)
}

type endAllInput struct {
	KeepCurrent bool `query:"keep_current" doc:"Keeps the session of this request"`
}

func endOwnSessions(ctx context.Context, c *route.Caller, in *endAllInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	keep := ""
	if in.KeepCurrent {
		keep = c.Hash.String()
	}
	return endAll(ctx, c, c.UserID, keep)
}

// endAll ends the sessions of a user in the caller's organisation, except the one with
// the hash keep.
func endAll(ctx context.Context, c *route.Caller, user, keep string) (*route.Empty, error) {
	c.SetAuditAction("sessions_end", user)
	err := c.Change(ctx, func(tx *store.Tx) error { return tx.EndSessions(ctx, c.Organisation, user, keep) })
	return &route.Empty{}, err
}

type sessionRef struct {
	Session string `path:"session" maxLength:"255"`
}

func endOwnSession(ctx context.Context, c *route.Caller, in *sessionRef) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	return end(ctx, c, c.UserID, in.Session)
}

func end(ctx context.Context, c *route.Caller, user, id string) (*route.Empty, error) {
	c.SetAuditAction("session_end", id)
	err := c.Change(ctx, func(tx *store.Tx) error { return tx.EndSession(ctx, c.Organisation, user, id) })
	if apierr.IsNotFound(err) {
		err = route.NotFound("session", "session", id)
	}
	return &route.Empty{}, err
}

type userRef struct {
	User string `path:"user" maxLength:"255"`
}

// member returns a user of the caller's organisation. With ends set, it refuses an
// owner unless the caller is one.
func member(ctx context.Context, c *route.Caller, ref string, ends bool) (store.User, error) {
	u, err := c.DB().User(ctx, c.Organisation, access.UserName(ref))
	switch {
	case apierr.IsNotFound(err):
		err = route.NotFound("user", "user", ref)
	case err == nil && ends && u.Role == "owner" && c.UserID != u.ID:
		err = apierr.New(apierr.Forbidden, "only the owner can end the owner's sessions").WithParam("user").WithCode("AB03")
	}
	return u, err
}

type sessionsInput struct {
	User string `path:"user" maxLength:"255"`
	route.LongPaging
}

func (f *family) listOf(ctx context.Context, c *route.Caller, in *sessionsInput) (*route.List[item], error) {
	u, err := member(ctx, c, in.User, false)
	if err != nil {
		return nil, err
	}
	return f.list(ctx, c, u.ID, in.LongPaging)
}

func endAllOf(ctx context.Context, c *route.Caller, in *userRef) (*route.Empty, error) {
	u, err := member(ctx, c, in.User, true)
	if err != nil {
		return nil, err
	}
	return endAll(ctx, c, u.ID, "")
}

type userSessionRef struct {
	User    string `path:"user" maxLength:"255"`
	Session string `path:"session" maxLength:"255"`
}

func endOf(ctx context.Context, c *route.Caller, in *userSessionRef) (*route.Empty, error) {
	u, err := member(ctx, c, in.User, true)
	if err != nil {
		return nil, err
	}
	return end(ctx, c, u.ID, in.Session)
}
