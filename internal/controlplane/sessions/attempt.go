package sessions

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Limits of password attempts. An attempt is counted before the password is hashed, and
// uncounted if the password is right.
//
// Per account and address the limit is separate, so that an attacker at another address
// cannot lock out the owner of the account. All addresses that never used an account
// before share one limit, so that many addresses do not add up. An address also has a
// limit over all accounts; see [people.AddressLimit].
var (
	pairLimit    = store.AttemptLimit{Free: 10, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Hour}
	accountLimit = store.AttemptLimit{Free: 30, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Hour}
)

// keptLimits is the number of limits left in the database by the cleanup each minute.
const keptLimits = 100_000

// account is the account whose password is checked. The user is zero if no user has the
// e-mail address.
type account struct {
	email        string
	user         store.User
	organisation string
}

func (a *account) signsIn() bool {
	return a.user.ID != "" && a.user.Status == store.Active && a.user.PasswordHash != ""
}

// find returns the account with an e-mail address, whether or not it exists.
func find(ctx context.Context, q store.Queries, email string) (account, error) {
	address, err := access.ParseEmail(email)
	if err != nil { // never another account's: some letters become ASCII ones in lower case
		address = email
	}
	a := account{email: address}
	u, organisation, err := q.UserByEmail(ctx, a.email)
	if apierr.IsNotFound(err) {
		return a, nil
	}
	a.user, a.organisation = u, organisation
	return a, err
}

// prove checks the password of an account. It does the same work whether or not the
// account exists. For a wrong password it returns errWrong; the other errors say when
// to try again.
func (f *family) prove(ctx context.Context, c *route.Caller, a *account, password string) error {
	address := people.AddressGroup(c.ClientIP())
	known, err := c.DB().IsKnownAddress(ctx, a.user.ID, address, c.Now)
	if err != nil {
		return err
	}
	leave, err := f.hasher.enter(address, known)
	if err != nil {
		f.deps.count("busy")
		return err
	}
	defer leave()
	l := limits(a.email, address)
	reserved := []store.AttemptLimit{l.address, l.pair}
	if !known {
		reserved = append(reserved, l.account)
	}
	err = people.Reserve(ctx, c, f.db, "too many wrong passwords", reserved...)
	if people.IsLimited(err) {
		f.deps.count("limited")
		f.failures.note(ctx, c, a, true)
	}
	if err != nil {
		return err
	}
	stored := dummy
	if a.signsIn() {
		stored = a.user.PasswordHash
	}
	right, err := f.hasher.verify(ctx, password, stored)
	if err != nil {
		return err
	}
	if !right || !a.signsIn() {
		f.deps.count("wrong")
		f.failures.note(ctx, c, a, false)
		return errWrong
	}
	if err := f.db.ReleaseAttempt(ctx, c.Now, reserved...); err != nil {
		return err
	}
	f.deps.count("ok")
	return f.db.ForgetAttempts(ctx, l.pair.ID)
}

func (r *Routes) count(outcome string) {
	if r.Count != nil {
		r.Count(outcome)
	}
}

var errWrong = apierr.New(apierr.Unauthenticated, "the e-mail address or the password is wrong")

// dummy is the hash verified if an account does not exist, so that both cases take the
// same time.
const dummy = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// attemptLimits are the limits of one attempt.
type attemptLimits struct{ address, pair, account store.AttemptLimit }

func limits(email, address string) attemptLimits {
	l := attemptLimits{people.AddressLimit(address), pairLimit, accountLimit}
	l.pair.ID = people.LimitID("pair", email, address)
	l.account.ID = people.LimitID("account", email)
	return l
}
