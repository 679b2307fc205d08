package people

import (
	"context"
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// Second factors, as requests and responses name them.
const (
	MethodPasskey  = "passkey"
	MethodCode     = "one_time_code"
	MethodRecovery = "recovery_code"
)

// Factors are the second factors of a member.
type Factors struct {
	Passkeys []store.Passkey
	Codes    bool // one-time codes
	Recovery int  // recovery codes left
}

// FactorsOf returns the second factors of a member.
func FactorsOf(ctx context.Context, q store.Queries, organisation, user string) (f Factors, err error) {
	if f.Passkeys, err = q.Passkeys(ctx, organisation, user); err != nil {
		return f, err
	}
	if _, err = q.OneTimeCode(ctx, organisation, user); err == nil {
		f.Codes = true
	} else if !apierr.IsNotFound(err) {
		return f, err
	}
	f.Recovery, err = q.RecoveryCodes(ctx, organisation, user)
	return f, err
}

// Count returns the number of factors; recovery codes are none of their own.
func (f *Factors) Count() int {
	n := len(f.Passkeys)
	if f.Codes {
		n++
	}
	return n
}

// Methods returns how a sign-in can be completed. It is empty for a member without a second
// factor.
func (f *Factors) Methods() []string {
	var list []string
	if len(f.Passkeys) > 0 {
		list = append(list, MethodPasskey)
	}
	if f.Codes {
		list = append(list, MethodCode)
	}
	if len(list) > 0 && f.Recovery > 0 {
		list = append(list, MethodRecovery)
	}
	return list
}

// Proof is a second factor in a request: one of the fields.
type Proof struct {
	Code     string          `json:"code,omitempty" minLength:"6" maxLength:"6" pattern:"^[0-9]{6}$" doc:"One-time code of an app; each works once"`
	Recovery string          `json:"recovery_code,omitempty" minLength:"1" maxLength:"64" doc:"One of your recovery codes, which is used up"`
	Passkey  json.RawMessage `json:"passkey,omitempty" doc:"What navigator.credentials.get() returned, as JSON, for the options of POST /auth/passkey/options"`
}

// Proved is a second factor that was checked.
type Proved struct {
	Method string

	// Spend uses it up in the change that it allows. It returns an error of kind
	// Unauthenticated if it was used concurrently, or is unknown.
	Spend func(ctx context.Context, tx *store.Tx) error

	// Release uncounts the attempt, after that change.
	Release func(ctx context.Context) error
}

// CheckPasswords returns an error if an organisation does not accept passwords.
func CheckPasswords(o *store.Organisation) error {
	if !o.Settings.NoPasswords {
		return nil
	}
	return apierr.New(apierr.Forbidden, "your organisation does not accept passwords; sign in at its identity provider or with a passkey").
		WithCode("password_sign_in_off")
}

// CheckNoPasswords returns an error if nobody could sign in as owner of an organisation without
// a password.
func CheckNoPasswords(ctx context.Context, q store.Queries, o *store.Organisation) error {
	if !o.Settings.NoPasswords {
		return nil
	}
	n, err := q.OwnersWithoutPassword(ctx, o.ID)
	if err == nil && n == 0 {
		err = apierr.New(apierr.Conflict, "no owner could sign in without a password; an owner must first link an account at an identity provider, or add a passkey that verifies its user").
			WithParam("settings.password_sign_in").WithCode("no_other_sign_in")
	}
	return err
}

// CheckWayIn returns an error if a change of tx took away from an organisation without passwords
// the last way in which one of its owners signs in.
func CheckWayIn(ctx context.Context, tx *store.Tx, organisation string) error {
	o, err := tx.Organisation(ctx, organisation)
	if err != nil {
		return err
	}
	return CheckNoPasswords(ctx, tx.Queries, &o)
}
