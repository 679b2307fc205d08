package people

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// PendingTime is how long a session waits for a second factor.
const PendingTime = 10 * time.Minute

// NewSession is a session that has just begun, with its token.
type NewSession struct {
	Token     string     `json:"token,omitempty" doc:"Sent as x-gateway-api-key or as a bearer token; shown only once, and absent if the request asked for a cookie"`
	ID        string     `json:"id" doc:"Id of the session in lists and in the audit log"`
	ExpiresAt route.Time `json:"expires_at" doc:"Latest time; expires earlier if it is not used"`
	UserID    string     `json:"user_id"`
	Object    string     `json:"object"`
	Pending   string     `json:"pending,omitempty" enum:"second_factor,enrolment" doc:"What the session waits for before it can be used: a second factor, sent to POST /auth/second-factor, or one that must be added because the organisation requires it. Absent if it waits for nothing"`
	Methods   []string   `json:"methods,omitempty" doc:"Of a pending session: the second factors that it can be completed with: passkey, one_time_code, recovery_code"`
}

// Start describes a session that begins.
type Start struct {
	UserID       string
	Organisation string
	Ends         time.Time
	Method       string // one of store's Method constants

	// Strong means that signing in proved two factors already.
	Strong bool

	// ProvedAt is when the user proved who they are; zero is now.
	ProvedAt time.Time

	// Of a sign-in at an identity provider; see [store.Session].
	Provider, Subject, ProviderSession, IDToken string
}

// Begin stores a session and records the address of the sign-in. Unless it is strong, the
// session is pending if its user has a second factor, or the organisation requires one: it is
// the one place that decides it.
func Begin(ctx context.Context, c *route.Caller, tx *store.Tx, s Start) (*NewSession, error) {
	row := store.Session{
		UserID: s.UserID, Organisation: s.Organisation, ExpiresAt: s.Ends, Method: s.Method, ProvedAt: s.ProvedAt,
		Provider: s.Provider, Subject: s.Subject, ProviderSession: s.ProviderSession, IDToken: s.IDToken,
	}
	var methods []string
	if s.Strong {
		row.Factor = s.Method
	} else {
		var err error
		if row.Pending, methods, err = due(ctx, tx.Queries, s.Organisation, s.UserID); err != nil {
			return nil, err
		}
	}
	out, err := create(ctx, c, tx, row)
	if err != nil {
		return nil, err
	}
	action := "sign_in"
	if row.Pending != "" {
		action = "sign_in_pending"
	}
	c.SetAuditAction(action, out.ID)
	c.SetAuditActor(s.UserID)
	out.Methods = methods
	return out, nil
}

// due returns what a session waits for that proved one factor only, and how it can be
// completed.
func due(ctx context.Context, q store.Queries, organisation, user string) (pending string, methods []string, err error) {
	has, err := FactorsOf(ctx, q, organisation, user)
	if err != nil {
		return "", nil, err
	}
	if methods = has.Methods(); len(methods) > 0 {
		return store.PendingFactor, methods, nil
	}
	o, err := q.Organisation(ctx, organisation)
	if err != nil || !o.Settings.RequireSecondFactor {
		return "", nil, err
	}
	return store.PendingEnrolment, []string{MethodPasskey, MethodCode}, nil
}

// create stores row as a new session with a token of its own. The address of a session that is
// pending is not remembered: whoever has only the password must not become known by it.
func create(ctx context.Context, c *route.Caller, tx *store.Tx, row store.Session) (*NewSession, error) {
	token := access.NewSessionToken()
	row.Hash, row.ID = access.HashKey(token.Reveal()).String(), c.NewID()
	row.Address, row.UserAgent, row.CreatedAt = c.ClientIP(), c.UserAgent(), c.Now
	if err := tx.CreateSession(ctx, row); err != nil {
		return nil, err
	}
	ends := row.ExpiresAt
	if row.Pending != "" {
		ends = PendingEnd(row)
	} else if err := tx.RememberAddress(ctx, row.UserID, AddressGroup(c.ClientIP()), c.Now); err != nil {
		return nil, err
	}
	return &NewSession{token.Reveal(), row.ID, route.Time(ends), row.UserID, "session", row.Pending, nil}, nil
}

// PendingEnd returns when a pending session ends.
func PendingEnd(s store.Session) time.Time {
	if at := s.CreatedAt.Add(PendingTime); at.Before(s.ExpiresAt) {
		return at
	}
	return s.ExpiresAt
}

// Raise replaces the caller's session, whose user has just proved factor, by one with another
// token that waits for nothing. Whoever has the token of before has nothing any more. Factor is
// empty for a password.
func Raise(ctx context.Context, c *route.Caller, tx *store.Tx, factor string) (*NewSession, error) {
	row, err := tx.Session(ctx, c.Hash.String())
	if err == nil {
		err = tx.DeleteSession(ctx, row.Hash)
	}
	if apierr.IsNotFound(err) {
		err = apierr.New(apierr.Unauthenticated, "the session has ended; sign in again")
	}
	if err != nil {
		return nil, err
	}
	row.Pending, row.ProvedAt = "", c.Now
	if factor != "" {
		row.Factor = factor
	}
	return create(ctx, c, tx, row)
}
