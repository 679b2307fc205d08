package oauth

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/store"
)

// Limits of wrong user codes, of a user and of an address. With ten guesses at once and
// one a minute later, a code that is valid for ten minutes is found by chance of one in a
// billion.
var guessLimit = store.AttemptLimit{Free: 10, Wait: time.Minute, MaxWait: time.Hour, Forget: 10 * time.Minute}

type showInput struct {
	Code string `query:"user_code" required:"true" minLength:"1" maxLength:"20"`
}

// waiting is a command line that wants to sign in.
type waiting struct {
	Object    string     `json:"object"`
	Name      string     `json:"device_name" doc:"What the command line says of itself, such as the name of its host; anybody can say anything"`
	Address   string     `json:"address" doc:"Address from which it asked"`
	CreatedAt route.Time `json:"created_at"`
	ExpiresAt route.Time `json:"expires_at"`
}

func (f *family) show(ctx context.Context, c *route.Caller, in *showInput) (*waiting, error) {
	d, err := f.find(ctx, c, in.Code)
	if err != nil {
		return nil, err
	}
	return &waiting{"device_sign_in", d.Client, d.Address, route.Time(d.CreatedAt), route.Time(d.EndsAt)}, nil
}

type decideInput struct {
	Body struct {
		Code     string `json:"user_code" minLength:"1" maxLength:"20"`
		Decision string `json:"decision" enum:"approve,deny"`
	}
}

func (f *family) decide(ctx context.Context, c *route.Caller, in *decideInput) (*route.Empty, error) {
	c.SetAuditAction("device_"+in.Body.Decision, "")
	details := map[string]string{"method": store.MethodDevice}
	c.SetAuditDetails(details) // without the code
	d, err := f.find(ctx, c, in.Body.Code)
	if err != nil {
		return nil, err
	}
	details["device_name"], details["address"] = d.Client, d.Address
	status := store.DeviceApproved
	if in.Body.Decision == "deny" {
		status = store.DeviceDenied
	} else if err := c.CheckFresh(); err != nil { // a stolen session must not begin another
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		return tx.DecideDeviceCode(ctx, d.Hash, status, c.Hash.String(), c.Now)
	})
	if apierr.IsNotFound(err) {
		err = unknownCode()
	}
	return &route.Empty{}, err
}

func unknownCode() error {
	return apierr.New(apierr.NotFound, "this code is unknown, used or expired; compare it with what your command line shows, or begin there again").
		WithParam("user_code")
}

// find returns the command line with a user code, if the caller may approve it.
func (f *family) find(ctx context.Context, c *route.Caller, text string) (store.DeviceCode, error) {
	var none store.DeviceCode
	if _, err := f.checkBrowser(ctx, c); err != nil {
		return none, err
	}
	byUser, byAddress := guessLimit, guessLimit
	byUser.ID, byAddress.ID = people.LimitID("user code", c.UserID), people.LimitID("user code address", people.AddressGroup(c.ClientIP()))
	byAddress.Free = 30
	if err := people.Reserve(ctx, c, f.api.DB, "too many wrong codes", byUser, byAddress); err != nil {
		return none, err
	}
	code, ok := oauth.ParseUserCode(text)
	if !ok {
		return none, unknownCode()
	}
	d, err := c.DB().PendingDeviceCode(ctx, hashUserCode(code), c.Now)
	if apierr.IsNotFound(err) {
		return none, unknownCode()
	}
	if err == nil {
		err = f.api.DB.ReleaseAttempt(ctx, c.Now, byUser, byAddress)
	}
	return d, err
}
