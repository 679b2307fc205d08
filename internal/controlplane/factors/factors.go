// Package factors has the routes of second factors: passkeys, one-time codes and recovery
// codes.
//
// It guarantees that a challenge and a code are accepted once on all nodes, that a factor
// belongs to one member of one organisation, that wrong codes are slowed down, that a copied
// passkey is refused, and that the last factor stays where the organisation requires one.
// It does not decide when a factor is due, which people does.
package factors

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/passkey"
	"modelgate/internal/store"
)

const tag = "Second factors"

// Routes are the routes of second factors.
type Routes struct {
	// Lifetime returns how long a session may be. Nil means a week.
	Lifetime func() time.Duration

	// Count is called for every sign-in with a passkey, or completed with a second factor, with
	// its outcome: ok, wrong or limited. Nil is not called.
	Count func(outcome string)
}

// family has the routes with what all families have.
type family struct {
	Routes
	api *route.API
}

// Paths of the routes.
const (
	signInPath  = "/auth/passkey"
	provePath   = "/auth/second-factor"
	ownPath     = "/auth/second-factors"
	passkeyPath = "/auth/passkeys"
	codePath    = "/auth/one-time-codes"
)

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	if r.Lifetime == nil {
		r.Lifetime = func() time.Duration { return 7 * 24 * time.Hour }
	}
	f := &family{r, a}
	base := route.Route{Method: http.MethodPost, Tag: tag, Resource: "session", Private: true, MaxBody: 2 * passkey.MaxAnswer}
	with := func(path, name, summary string, change func(*route.Route)) route.Route {
		r := base
		r.Path, r.Name, r.Summary = path, name, summary
		change(&r)
		return r
	}
	open := func(r *route.Route) { r.Open = true }
	route.Add(a, with(signInPath+"/options", "begin-passkey-sign-in", "Begin to sign in with a passkey alone", func(r *route.Route) {
		r.Open, r.Resource = true, ""
	}), f.beginSignIn)
	route.Add(a, with(signInPath, "sign-in-with-passkey", "Sign in with a passkey alone", open), f.signIn)

	waiting := func(r *route.Route) { r.Pending = []string{store.PendingFactor} }
	route.Add(a, with(provePath+"/options", "begin-second-factor", "Begin to use one of your passkeys", func(r *route.Route) {
		waiting(r)
		r.Resource = ""
	}), f.beginProof)
	route.Add(a, with(provePath, "prove-second-factor", "Complete a sign-in with your second factor", waiting), f.complete)

	enrolling := func(r *route.Route) {
		r.Pending, r.Fresh, r.Resource = []string{store.PendingEnrolment}, true, "second_factor"
	}
	own := func(method string) func(r *route.Route) {
		return func(r *route.Route) { r.Method, r.Fresh, r.Resource = method, true, "second_factor" }
	}
	route.Add(a, with(ownPath, "list-own-second-factors", "List your second factors", func(r *route.Route) {
		r.Method, r.Resource, r.Pending = http.MethodGet, "", []string{store.PendingEnrolment}
	}), f.list)
	route.Add(a, with(passkeyPath+"/options", "begin-passkey", "Begin to add a passkey", func(r *route.Route) {
		enrolling(r)
		r.Resource = ""
	}), f.beginPasskey)
	route.Add(a, with(passkeyPath, "add-passkey", "Add a passkey", enrolling), f.addPasskey)
	route.Add(a, with(passkeyPath+"/{passkey}", "rename-passkey", "Rename one of your passkeys", own(http.MethodPut)), f.renamePasskey)
	route.Add(a, with(passkeyPath+"/{passkey}", "delete-passkey", "Remove one of your passkeys", own(http.MethodDelete)),
		f.deletePasskey)
	route.Add(a, with(codePath, "begin-one-time-codes", "Begin to use an app for one-time codes", func(r *route.Route) {
		enrolling(r)
		r.Resource = ""
	}), f.beginCodes)
	route.Add(a, with(codePath+"/confirm", "add-one-time-codes", "Confirm an app for one-time codes with its first code", enrolling),
		f.addCodes)
	route.Add(a, with(codePath, "delete-one-time-codes", "Use one-time codes no longer", own(http.MethodDelete)), f.deleteCodes)
	route.Add(a, with("/auth/recovery-codes", "replace-recovery-codes", "Replace your recovery codes", own(http.MethodPost)),
		f.replaceRecovery)

	reset := route.Family{Path: "/admin/users/{user}", Tag: "Users", Scopes: []string{"organisation_users"}, Resource: "second_factor"}.
		Route(http.MethodDelete, "/second-factors", "reset-second-factors", "update",
			"Remove all second factors of a user, who lost them, and end their sessions")
	reset.Fresh = true
	route.Add(a, reset, resetOf)
}

// checkSession returns an error unless the caller uses a session, pending or not.
func checkSession(c *route.Caller) error {
	if c.Type == access.Session || c.Type == access.PendingSession {
		return nil
	}
	return apierr.New(apierr.Forbidden, "a session is required; keys cannot be used here").WithCode("AB03")
}

func (f *family) count(outcome string) {
	if f.Count != nil {
		f.Count(outcome)
	}
}

// passkeyItem is a passkey in a response.
type passkeyItem struct {
	ID             string     `json:"id"`
	Object         string     `json:"object"`
	Name           string     `json:"name"`
	Host           string     `json:"rp_id" doc:"Host for which it was made; at another one it cannot be used"`
	AAGUID         string     `json:"aaguid" doc:"Kind of authenticator, in hexadecimal"`
	Transports     []string   `json:"transports"`
	UserVerified   bool       `json:"user_verified" doc:"Whether it can sign you in alone"`
	BackupEligible bool       `json:"backup_eligible" doc:"Whether it may be on several devices"`
	BackedUp       bool       `json:"backed_up" doc:"Whether it was on several devices at its last use"`
	Clones         int64      `json:"suspected_clones" doc:"Uses that were refused because their counter did not rise, as that of a copy"`
	CreatedAt      route.Time `json:"created_at"`
	LastUsedAt     route.Time `json:"last_used_at"`
}

// ownFactors are the second factors of the caller.
type ownFactors struct {
	Object   string        `json:"object"`
	Required bool          `json:"required" doc:"Whether the organisation requires one"`
	Passkeys []passkeyItem `json:"passkeys"`
	Codes    bool          `json:"one_time_codes" doc:"Whether an app makes one-time codes"`
	Recovery int           `json:"recovery_codes_left"`
}

func (f *family) list(ctx context.Context, c *route.Caller, _ *struct{}) (*ownFactors, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	has, err := people.FactorsOf(ctx, c.DB(), c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	out := &ownFactors{"second_factors", o.Settings.RequireSecondFactor, []passkeyItem{}, has.Codes, has.Recovery}
	for _, p := range has.Passkeys {
		out.Passkeys = append(out.Passkeys, toItem(p))
	}
	return out, err
}

// added is a second factor that was just added.
type added struct {
	ID       string             `json:"id,omitempty" doc:"Of a passkey"`
	Object   string             `json:"object" enum:"passkey,one_time_codes"`
	Recovery []string           `json:"recovery_codes,omitempty" doc:"With your first second factor: codes that replace it, each once. They are shown only here"`
	Session  *people.NewSession `json:"session,omitempty" doc:"Of a session that waited for a second factor: the one that replaces it"`
}

// enrol stores a factor with add, recovery codes with a first one, and replaces the caller's
// session if it waited for that.
func (f *family) enrol(
	ctx context.Context, c *route.Caller, method string, cookie *people.Cookie, add func(*store.Tx) error,
) (*added, error) {
	out := new(added)
	err := c.Change(ctx, func(tx *store.Tx) error {
		had, err := people.FactorsOf(ctx, tx.Queries, c.Organisation, c.UserID)
		if err == nil && c.Type == access.PendingSession && had.Count() > 0 { // added since: a password is not enough
			err = apierr.New(apierr.Forbidden, "you have a second factor; sign in again, and use it").WithCode(route.CodeFactorRequired)
		}
		if err == nil {
			err = add(tx)
		}
		if err == nil && had.Count() == 0 {
			out.Recovery, err = newRecoveryCodes(ctx, tx, c.Organisation, c.UserID)
		}
		if err == nil && c.Type == access.PendingSession {
			out.Session, err = people.Raise(ctx, c, tx, method)
		}
		return err
	})
	if err == nil {
		people.InCookie(c, out.Session, cookie)
	}
	return out, err
}

// drop deletes a factor with remove, and recovery codes with the last one. The last one stays
// if the organisation requires one.
func drop(ctx context.Context, c *route.Caller, remove func(*store.Tx) error) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := remove(tx); err != nil {
			return err
		}
		if err := people.CheckWayIn(ctx, tx, c.Organisation); err != nil {
			return err
		}
		left, err := people.FactorsOf(ctx, tx.Queries, c.Organisation, c.UserID)
		if err != nil || left.Count() > 0 {
			return err
		}
		o, err := tx.Organisation(ctx, c.Organisation)
		if err == nil && o.Settings.RequireSecondFactor {
			err = apierr.New(apierr.Conflict, "your organisation requires a second factor, and this is your last; add another first").
				WithCode("last_second_factor")
		}
		if err != nil {
			return err
		}
		return tx.SetRecoveryCodes(ctx, c.Organisation, c.UserID, nil)
	})
}

type userRef struct {
	User string `path:"user" maxLength:"255"`
}

// resetOf removes all second factors of a member. Those of an owner are removed by an owner
// only, who cannot be outranked.
func resetOf(ctx context.Context, c *route.Caller, in *userRef) (*route.Empty, error) {
	u, err := c.DB().User(ctx, c.Organisation, access.UserName(in.User))
	if apierr.IsNotFound(err) {
		return nil, route.NotFound("user", "user", in.User)
	}
	if err != nil {
		return nil, err
	}
	m, err := c.DB().Membership(ctx, c.Organisation, u.ID)
	if err != nil {
		return nil, err
	}
	if err := c.CheckRole(m.Role); err != nil {
		return nil, err
	}
	if u.Role == "owner" {
		own := store.Membership{}
		if c.IsPerson() {
			if own, err = c.DB().Membership(ctx, c.Organisation, c.UserID); err != nil {
				return nil, err
			}
		}
		if own.Role != "owner" {
			return nil, apierr.New(apierr.Forbidden, "an owner's second factors can be removed by an owner, or on the gateway's host with `modelgate users reset-factors`").
				WithParam("user").WithCode("AB03")
		}
	}
	c.SetAuditAction("second_factor_reset", u.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if _, err := tx.DeleteFactors(ctx, c.Organisation, u.ID); err != nil {
			return err
		}
		return tx.EndSessions(ctx, c.Organisation, u.ID, "")
	})
	return &route.Empty{}, err
}
