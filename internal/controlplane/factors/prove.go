package factors

import (
	"context"
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/passkey"
	"modelgate/internal/identity/totp"
	"modelgate/internal/store"
)

// beginSignIn gives a challenge for whichever passkey the authenticator has.
func (f *family) beginSignIn(ctx context.Context, c *route.Caller, _ *struct{}) (*challenge, error) {
	where, err := site(c)
	if err != nil {
		return nil, err
	}
	options, made, err := passkey.Ask(where, nil)
	if err != nil {
		return nil, err
	}
	return f.begin(ctx, c, toSignIn, options, made)
}

type signInInput struct {
	Body struct {
		Passkey json.RawMessage `json:"passkey" doc:"What navigator.credentials.get() returned, as JSON"`
		Cookie  *people.Cookie  `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

// signIn signs in the member whose passkey answered.
func (f *family) signIn(ctx context.Context, c *route.Caller, in *signInInput) (*people.NewSession, error) {
	c.AddAuditDetail("method", people.MethodPasskey)
	out, err := f.passkeySession(ctx, c, in.Body.Passkey)
	f.outcome(err)
	if err != nil {
		return nil, err
	}
	people.InCookie(c, out, in.Body.Cookie)
	return out, nil
}

func (f *family) passkeySession(ctx context.Context, c *route.Caller, answer []byte) (out *people.NewSession, err error) {
	c.SetAuditAction("sign_in_failed", "")
	limit := people.AddressLimit(people.AddressGroup(c.ClientIP()))
	if err := f.reserve(ctx, c, limit); err != nil {
		return nil, err
	}
	w, err := f.resume(ctx, c, toSignIn)
	if err != nil {
		return nil, err
	}
	before, after, err := f.answered(ctx, c, w, answer, func(store.Passkey) bool { return true })
	if err != nil {
		return nil, err
	}
	c.SetAuditOrganisation(before.Organisation)
	err = c.Change(ctx, func(tx *store.Tx) error {
		u, err := tx.User(ctx, before.Organisation, before.UserID)
		if err == nil && u.Status != store.Active {
			err = refuse(c, "disabled", "the passkey was not accepted; try again, or sign in another way")
		}
		if err == nil {
			err = w.spend(ctx, c, tx)
		}
		if err == nil {
			err = tx.UsePasskey(ctx, before, after)
		}
		if err != nil {
			return err
		}
		out, err = people.Begin(ctx, c, tx, people.Start{
			UserID: u.ID, Organisation: before.Organisation, Ends: c.Now.Add(f.Lifetime()), Method: store.MethodPasskey, Strong: true,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, f.api.DB.ReleaseAttempt(ctx, c.Now, limit)
}

// answered checks the answer to a challenge and returns the passkey before and after its use.
// A passkey for which allowed returns false is unknown. The use of a copy is recorded and
// refused.
func (f *family) answered(
	ctx context.Context, c *route.Caller, w flow, answer []byte, allowed func(store.Passkey) bool,
) (before, after store.Passkey, err error) {
	where, err := site(c)
	if err != nil {
		return before, after, err
	}
	if w.Host != where.Host || w.Origin != where.Origin {
		return before, after, refuse(c, "challenge", "the challenge is of another address of the gateway; begin again")
	}
	use, err := passkey.Answered(w.Ceremony, answer, w.Purpose == toProve, func(id []byte) (k passkey.Key, err error) {
		before, err = c.DB().PasskeyByCredential(ctx, encoding.EncodeToString(id))
		if apierr.IsNotFound(err) || err == nil && !allowed(before) {
			return k, refuse(c, "unknown_passkey", "the passkey was not accepted; try again, or sign in another way")
		}
		if err != nil {
			return k, err
		}
		return keyOf(&before)
	})
	if err != nil {
		return before, after, explain(c, err)
	}
	after = before
	setKey(&after, &use.Key)
	after.LastUsedAt = c.Now
	if !use.Cloned {
		return before, after, nil
	}
	after = before
	after.Clones++
	if err := f.api.DB.Update(ctx, nil, func(tx *store.Tx) error { return tx.UpdatePasskey(ctx, after) }); err != nil {
		return before, after, err
	}
	err = refuse(c, "cloned", "the passkey was not accepted; try again, or sign in another way")
	c.SetAuditOrganisation(before.Organisation)
	c.SetAuditAction("passkey_cloned", before.ID)
	return before, after, err
}

// reserve counts an attempt under limits. It returns an error that says when to try again if
// one does not allow it.
func (f *family) reserve(ctx context.Context, c *route.Caller, limits ...store.AttemptLimit) error {
	err := people.Reserve(ctx, c, f.api.DB, "too many failed sign-ins", limits...)
	if people.IsLimited(err) {
		c.AddAuditDetail("reason", "limited")
	}
	return err
}

// outcome counts an attempt.
func (f *family) outcome(err error) {
	switch e := apierr.From(err); {
	case err == nil:
		f.count("ok")
	case e.Kind == apierr.RateLimited:
		f.count("limited")
	case e.Kind == apierr.Unauthenticated:
		f.count("wrong")
	}
}

// beginProof gives a challenge for the caller's passkeys.
func (f *family) beginProof(ctx context.Context, c *route.Caller, _ *struct{}) (*challenge, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	where, err := site(c)
	if err != nil {
		return nil, err
	}
	rows, err := c.DB().Passkeys(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	var keys []passkey.Key
	for i := range rows {
		k, err := keyOf(&rows[i])
		if err != nil {
			return nil, err
		}
		if rows[i].RPID == where.Host {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, apierr.New(apierr.Conflict, "you have no passkey for %s; use another second factor", where.Host)
	}
	options, made, err := passkey.Ask(where, keys)
	if err != nil {
		return nil, err
	}
	return f.begin(ctx, c, toProve, options, made)
}

type completeInput struct {
	Body struct {
		people.Proof
		Cookie *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

// complete replaces a session that waits for a second factor by one that waits for nothing.
func (f *family) complete(ctx context.Context, c *route.Caller, in *completeInput) (*people.NewSession, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	if c.Type != access.PendingSession {
		return nil, apierr.New(apierr.Invalid, "this session waits for no second factor")
	}
	c.SetAuditAction("sign_in_failed", c.UserID)
	proved, err := f.prove(ctx, c, in.Body.Proof)
	var out *people.NewSession
	if err == nil {
		err = c.Change(ctx, func(tx *store.Tx) error {
			if err := proved.Spend(ctx, tx); err != nil {
				return err
			}
			out, err = people.Raise(ctx, c, tx, proved.Method)
			if out != nil {
				c.SetAuditAction("sign_in", out.ID)
			}
			return err
		})
	}
	f.outcome(err)
	if err != nil {
		return nil, err
	}
	people.InCookie(c, out, in.Body.Cookie)
	return out, proved.Release(ctx)
}

// limitsOf returns the limits of the caller's second factors.
func limitsOf(c *route.Caller) []store.AttemptLimit {
	return []store.AttemptLimit{people.AddressLimit(people.AddressGroup(c.ClientIP())), people.FactorLimit(c.Organisation, c.UserID)}
}

// release uncounts the attempt of a factor that was right.
func (f *family) release(ctx context.Context, c *route.Caller) error {
	l := limitsOf(c)
	if err := f.api.DB.ReleaseAttempt(ctx, c.Now, l...); err != nil {
		return err
	}
	return f.api.DB.ForgetAttempts(ctx, l[1].ID)
}

// Prove returns a function that checks a second factor of the caller, who has a session.
func (r Routes) Prove(a *route.API) func(ctx context.Context, c *route.Caller, p people.Proof) (people.Proved, error) {
	return (&family{r, a}).prove
}

// prove checks a second factor of the caller, and counts the attempt.
func (f *family) prove(ctx context.Context, c *route.Caller, p people.Proof) (out people.Proved, err error) {
	var check func() (spending, error)
	n := 0
	for _, m := range []struct {
		name  string
		given bool
		check func() (spending, error)
	}{
		{people.MethodPasskey, len(p.Passkey) > 0, func() (spending, error) { return f.provePasskey(ctx, c, p.Passkey) }},
		{people.MethodCode, p.Code != "", func() (spending, error) { return f.proveCode(ctx, c, p.Code) }},
		{people.MethodRecovery, p.Recovery != "", func() (spending, error) { return proveRecovery(c, p.Recovery), nil }},
	} {
		if m.given {
			out.Method, check = m.name, m.check
			n++
		}
	}
	c.AddAuditDetail("method", out.Method)
	if n != 1 {
		return out, apierr.New(apierr.Invalid, "send one of code, recovery_code and passkey")
	}
	if err := f.reserve(ctx, c, limitsOf(c)...); err != nil {
		return out, err
	}
	out.Release = func(ctx context.Context) error { return f.release(ctx, c) }
	out.Spend, err = check()
	return out, err
}

// spending uses up a factor; see [people.Proved].
type spending = func(context.Context, *store.Tx) error

func (f *family) provePasskey(ctx context.Context, c *route.Caller, answer []byte) (spending, error) {
	w, err := f.resume(ctx, c, toProve)
	if err != nil {
		return nil, err
	}
	before, after, err := f.answered(ctx, c, w, answer, func(p store.Passkey) bool {
		return p.Organisation == c.Organisation && p.UserID == c.UserID
	})
	return func(ctx context.Context, tx *store.Tx) error {
		if err := w.spend(ctx, c, tx); err != nil {
			return err
		}
		return tx.UsePasskey(ctx, before, after)
	}, err
}

func wrongCode(c *route.Caller) error {
	return refuse(c, "code", "the code is wrong, or was used before")
}

func (f *family) proveCode(ctx context.Context, c *route.Caller, code string) (spending, error) {
	o, err := c.DB().OneTimeCode(ctx, c.Organisation, c.UserID)
	if apierr.IsNotFound(err) {
		return nil, wrongCode(c)
	}
	if err != nil {
		return nil, err
	}
	if f.api.Secrets == nil {
		return nil, apierr.New(apierr.Unavailable, "second factors need a master key")
	}
	s, err := f.api.Secrets.Open(ctx, c.Organisation, o.Sealed)
	if err != nil {
		return nil, err
	}
	step, ok, err := totp.Check(s, code, c.Now, o.LastStep)
	if err == nil && !ok {
		err = wrongCode(c)
	}
	return func(ctx context.Context, tx *store.Tx) error {
		err := tx.SpendStep(ctx, o, step)
		if apierr.IsNotFound(err) { // on another node, at the same time
			err = wrongCode(c)
		}
		return err
	}, err
}

func proveRecovery(c *route.Caller, code string) spending {
	return func(ctx context.Context, tx *store.Tx) error {
		err := tx.SpendRecoveryCode(ctx, c.Organisation, c.UserID, hashRecovery(code))
		if apierr.IsNotFound(err) {
			err = wrongCode(c)
		}
		return err
	}
}
