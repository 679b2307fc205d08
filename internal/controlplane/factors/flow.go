package factors

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/passkey"
	"modelgate/internal/store"
)

// What a challenge is for.
const (
	toSignIn   = "sign_in"
	toProve    = "prove"
	toRegister = "register"
)

// flow is what the browser that asked for a challenge keeps of it, sealed, in a cookie. A
// challenge is spent when its answer is accepted.
type flow struct {
	passkey.Ceremony
	Purpose string    `json:"purpose"`
	Session string    `json:"session,omitempty"` // hash of the session that asked
	Began   time.Time `json:"began"`
}

func cookieName(c *route.Caller) string {
	if c.IsSecure() { // then browsers accept it from this host alone
		return "__Host-mg_passkey"
	}
	return "mg_passkey"
}

// site returns the site for which passkeys are made and used.
func site(c *route.Caller) (passkey.Site, error) {
	host, origin, err := c.Site()
	return passkey.Site{Host: host, Origin: origin}, err
}

// challenge is what a browser needs for a passkey.
type challenge struct {
	Object  string          `json:"object"`
	Options json.RawMessage `json:"options" doc:"For navigator.credentials.create() or get(), as publicKey, in the JSON form of the standard. The response also sets a cookie, without which the answer is refused"`
}

// begin gives a challenge to the caller's browser.
func (f *family) begin(
	ctx context.Context, c *route.Caller, purpose string, options json.RawMessage, made passkey.Ceremony,
) (*challenge, error) {
	w := flow{Ceremony: made, Purpose: purpose, Began: c.Now}
	if purpose != toSignIn {
		w.Session = c.Hash.String()
	}
	sealed, err := f.seal(ctx, w)
	if err != nil {
		return nil, err
	}
	c.SetCookie(&http.Cookie{
		Name: cookieName(c), Value: sealed, Path: "/", MaxAge: int(passkey.Time.Seconds()), SameSite: http.SameSiteStrictMode,
	})
	return &challenge{"passkey_challenge", options}, nil
}

// resume returns the flow that the caller's browser began for a purpose, and forgets it.
func (f *family) resume(ctx context.Context, c *route.Caller, purpose string) (w flow, err error) {
	sealed := c.Cookie(cookieName(c))
	if sealed == "" {
		return w, refuse(c, "challenge", "the browser has no challenge, or it is older than 5 minutes; begin again")
	}
	c.SetCookie(&http.Cookie{Name: cookieName(c), Path: "/", MaxAge: -1, SameSite: http.SameSiteStrictMode})
	if f.unseal(ctx, sealed, &w) != nil || w.Purpose != purpose || purpose != toSignIn && w.Session != c.Hash.String() {
		return w, refuse(c, "challenge", "the challenge is of another browser, session or purpose; begin again")
	}
	if c.Now.Sub(w.Began) > passkey.Time || w.Began.After(c.Now.Add(time.Minute)) {
		return w, refuse(c, "expired_challenge", "the challenge is older than 5 minutes; begin again")
	}
	return w, nil
}

// spend uses up the challenge of a flow.
func (w *flow) spend(ctx context.Context, c *route.Caller, tx *store.Tx) error {
	err := tx.Spend(ctx, people.LimitID("passkey", w.Challenge), c.Now, w.Began.Add(2*passkey.Time))
	if e := apierr.From(err); err != nil && e.Kind == apierr.Conflict {
		return refuse(c, "challenge", "the challenge was used before; begin again")
	}
	return err
}

// seal returns v as a string that only the gateways of this installation can read: not for an
// organisation, because whoever begins a sign-in is of none yet.
func (f *family) seal(ctx context.Context, v any) (string, error) {
	if f.api.Secrets == nil {
		return "", apierr.New(apierr.Unavailable, "second factors need a master key")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return f.api.Secrets.Seal(ctx, store.DefaultOrganisation, secret.New(string(text)))
}

// unseal reads what seal returned into v.
func (f *family) unseal(ctx context.Context, sealed string, v any) error {
	if f.api.Secrets == nil {
		return apierr.New(apierr.Unavailable, "second factors need a master key")
	}
	text, err := f.api.Secrets.Open(ctx, store.DefaultOrganisation, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text.Reveal()), v)
}

// refuse returns the error for a second factor that was not accepted, and has the audit log
// record why. Text says what to do, and not more than that to those who guess.
func refuse(c *route.Caller, reason, text string) error {
	c.AddAuditDetail("reason", reason)
	if c.Type == access.KeyType("") { // before a sign-in: the audit log of the installation
		c.SetAuditOrganisation(store.DefaultOrganisation)
	}
	return apierr.New(apierr.Unauthenticated, "%s", text).WithCode("second_factor_refused")
}
