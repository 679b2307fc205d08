package factors

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/totp"
	"modelgate/internal/store"
)

// enrolTime is how long adding an app for one-time codes may take.
const enrolTime = 10 * time.Minute

// enrolment is an app for one-time codes that waits for its first code. Its member keeps it,
// sealed.
type enrolment struct {
	Organisation string    `json:"organisation"`
	User         string    `json:"user"`
	Secret       string    `json:"secret"`
	Began        time.Time `json:"began"`
}

type begunCodes struct {
	Object    string `json:"object"`
	Secret    string `json:"secret" doc:"To type into an app"`
	URI       string `json:"uri" doc:"To show to an app as a QR code"`
	Enrolment string `json:"enrolment" doc:"To be sent back with the first code, within 10 minutes"`
}

// beginCodes makes a secret for an app. Nothing is stored before the app's first code.
func (f *family) beginCodes(ctx context.Context, c *route.Caller, _ *struct{}) (*begunCodes, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	u, err := c.DB().User(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	s := totp.NewSecret()
	sealed, err := f.seal(ctx, enrolment{c.Organisation, c.UserID, s.Reveal(), c.Now})
	if err != nil {
		return nil, err
	}
	return &begunCodes{"one_time_codes", s.Reveal(), totp.URI("modelgate "+o.Slug, u.Email, s).Reveal(), sealed}, nil
}

type addCodesInput struct {
	Body struct {
		Enrolment string         `json:"enrolment" minLength:"1" maxLength:"4096" doc:"From POST /auth/one-time-codes"`
		Code      string         `json:"code" minLength:"6" maxLength:"6" pattern:"^[0-9]{6}$" doc:"That the app shows now"`
		Cookie    *people.Cookie `json:"cookie,omitempty" doc:"Returns the token of the new session, if there is one, as a cookie instead of in the body"`
	}
}

// addCodes stores the secret of an app that showed its first code, instead of the one that the
// member had.
func (f *family) addCodes(ctx context.Context, c *route.Caller, in *addCodesInput) (*added, error) {
	c.AddAuditDetail("method", people.MethodCode)
	if err := checkSession(c); err != nil {
		return nil, err
	}
	var e enrolment
	err := f.unseal(ctx, in.Body.Enrolment, &e)
	if err != nil || e.Organisation != c.Organisation || e.User != c.UserID || c.Now.Sub(e.Began) > enrolTime {
		return nil, route.Invalid("enrolment", "is of somebody else, or older than 10 minutes; begin again")
	}
	if err := f.reserve(ctx, c, limitsOf(c)...); err != nil {
		return nil, err
	}
	s := secret.New(e.Secret)
	step, ok, err := totp.Check(s, in.Body.Code, c.Now, 0)
	if err == nil && !ok {
		c.AddAuditDetail("reason", "code")
		err = route.Invalid("code", "is wrong; compare the clock of the device")
	}
	if err != nil {
		return nil, err
	}
	sealed, err := f.api.Secrets.Seal(ctx, c.Organisation, s)
	if err != nil {
		return nil, err
	}
	c.SetAuditAction("second_factor_add", c.UserID)
	out, err := f.enrol(ctx, c, people.MethodCode, in.Body.Cookie, func(tx *store.Tx) error {
		return tx.SetOneTimeCode(ctx, store.OneTimeCode{
			Organisation: c.Organisation, UserID: c.UserID, Sealed: sealed, LastStep: step, CreatedAt: c.Now,
		})
	})
	if err != nil {
		return nil, err
	}
	out.Object = "one_time_codes"
	return out, f.release(ctx, c)
}

func (f *family) deleteCodes(ctx context.Context, c *route.Caller, _ *struct{}) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	c.SetAuditAction("second_factor_remove", c.UserID)
	err := drop(ctx, c, func(tx *store.Tx) error { return tx.DeleteOneTimeCode(ctx, c.Organisation, c.UserID) })
	if apierr.IsNotFound(err) {
		err = apierr.New(apierr.NotFound, "you have no one-time codes")
	}
	return &route.Empty{}, err
}

// Recovery codes: how many a member has, and their length in letters of 5 bits, which makes
// guessing hopeless and a plain hash safe.
const (
	recoveryCodes = 10
	codeLetters   = 20
)

type newCodes struct {
	Object string   `json:"object"`
	Codes  []string `json:"recovery_codes" doc:"Shown only here; those of before are valid no longer"`
}

func (f *family) replaceRecovery(ctx context.Context, c *route.Caller, _ *struct{}) (*newCodes, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	c.SetAuditAction("recovery_codes_replace", c.UserID)
	out := &newCodes{Object: "recovery_codes"}
	err := c.Change(ctx, func(tx *store.Tx) error {
		has, err := people.FactorsOf(ctx, tx.Queries, c.Organisation, c.UserID)
		if err == nil && has.Count() == 0 {
			err = apierr.New(apierr.Conflict, "recovery codes replace a second factor; add one first")
		}
		if err == nil {
			out.Codes, err = newRecoveryCodes(ctx, tx, c.Organisation, c.UserID)
		}
		return err
	})
	return out, err
}

// newRecoveryCodes replaces the recovery codes of a member.
func newRecoveryCodes(ctx context.Context, tx *store.Tx, organisation, user string) (codes []string, err error) {
	var hashes []string
	for range recoveryCodes {
		b := make([]byte, codeLetters*5/8+1)
		rand.Read(b) // never fails: crypto/rand aborts the program instead
		text := strings.ToLower(base32.StdEncoding.EncodeToString(b))[:codeLetters]
		var parts []string
		for i := 0; i < codeLetters; i += 5 {
			parts = append(parts, text[i:i+5])
		}
		code := strings.Join(parts, "-")
		codes, hashes = append(codes, code), append(hashes, hashRecovery(code))
	}
	return codes, tx.SetRecoveryCodes(ctx, organisation, user, hashes)
}

// hashRecovery returns the stored form of a recovery code, however it is typed.
func hashRecovery(code string) string {
	plain := strings.NewReplacer("-", "", " ", "").Replace(strings.ToLower(code))
	return access.HashKey("recovery code " + plain).String()
}
