package oauth

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/store"
)

// Limits of the device flow.
const (
	deviceTime   = 10 * time.Minute
	pollInterval = 5      // seconds
	maxWaiting   = 10_000 // device codes, of all organisations
	maxName      = 64     // characters of what a command line says of itself
)

// beginLimit limits the sign-ins that begin from an address.
var beginLimit = store.AttemptLimit{Free: 30, Wait: 10 * time.Second, MaxWait: 10 * time.Minute, Forget: 20 * time.Second}

// authorizeDevice begins the sign-in of a command line.
func (f *family) authorizeDevice(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	form, err := form(c, r)
	var out *oauth.Device
	if err == nil {
		out, err = f.beginDevice(ctx, c, form)
	}
	return reply(w, out, err)
}

func (f *family) beginDevice(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Device, error) {
	name := form["device_name"]
	switch {
	case form["client_id"] != commandLine:
		return nil, unknownClient
	case form["scope"] != "":
		return nil, oauth.NewError(oauth.InvalidScope, "sessions have the rights of their user; leave out scope")
	case len([]rune(name)) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, oauth.NewError(oauth.InvalidRequest, "device_name must have at most 64 characters and no control characters")
	}
	limit := beginLimit
	limit.ID = people.LimitID("device", people.AddressGroup(c.ClientIP()))
	if err := people.Reserve(ctx, c, f.api.DB, "too many sign-ins began from this address", limit); err != nil {
		return nil, err
	}
	code, user := access.NewLinkToken(), oauth.NewUserCode()
	parsed, _ := oauth.ParseUserCode(user)
	d := store.DeviceCode{
		Hash: access.HashKey(code.Reveal()).String(), UserCodeHash: hashUserCode(parsed), Client: name, Address: c.ClientIP(),
		Status: store.DevicePending, Interval: pollInterval, CreatedAt: c.Now, EndsAt: c.Now.Add(deviceTime),
	}
	if err := f.api.DB.AddDeviceCode(ctx, d, maxWaiting); err != nil {
		return nil, err
	}
	page := c.AbsoluteLink(PagePath)
	return &oauth.Device{
		DeviceCode: code.Reveal(), UserCode: user, URI: page, CompleteURI: page + "?user_code=" + url.QueryEscape(user),
		ExpiresIn: int64(deviceTime.Seconds()), Interval: pollInterval,
	}, nil
}

var unknownClient = &oauth.Error{
	Code: oauth.InvalidClient, Description: "client_id must be " + commandLine + ", without a secret", Status: http.StatusUnauthorized,
}

// hashUserCode returns the stored form of a user code. It has 34 bits, so that a reader of
// the database could find it, but needs a session of the organisation to approve it.
func hashUserCode(code string) string { return access.HashKey("user code " + code).String() }

// deviceGrant begins the session of a command line that was approved.
func (f *family) deviceGrant(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error) {
	switch {
	case form["client_id"] != commandLine:
		return nil, unknownClient
	case form["device_code"] == "":
		return nil, oauth.NewError(oauth.InvalidRequest, "device_code is required")
	}
	unknown := oauth.NewError(oauth.InvalidGrant, "the device code is unknown or was used")
	hash := access.HashKey(form["device_code"]).String()
	if _, err := c.DB().DeviceCode(ctx, hash); apierr.IsNotFound(err) { // without a lock, which a flood could hold
		return nil, unknown
	}
	d, early, err := f.api.DB.PollDeviceCode(ctx, hash, c.Now)
	switch {
	case apierr.IsNotFound(err):
		return nil, unknown
	case err != nil:
		return nil, err
	case !c.Now.Before(d.EndsAt):
		return nil, oauth.NewError(oauth.ExpiredToken, "the sign-in was not approved within ten minutes; begin again")
	case early:
		return nil, oauth.NewError(oauth.SlowDown, "wait five seconds longer between two requests from now on")
	case d.Status == store.DevicePending:
		return nil, oauth.NewError(oauth.AuthorizationPending, "the sign-in was not approved yet")
	case d.Status == store.DeviceDenied:
		return nil, oauth.NewError(oauth.AccessDenied, "the sign-in was denied")
	}
	out, err := f.beginSession(ctx, c, d)
	if apierr.IsNotFound(err) {
		return nil, unknown
	}
	return out, err
}

// beginSession begins a session of the person who approved d, if the session in which they
// did is still there: whoever ends their sessions ends this one.
func (f *family) beginSession(ctx context.Context, c *route.Caller, d store.DeviceCode) (*oauth.Token, error) {
	by, err := c.DB().Session(ctx, d.Session)
	if err != nil {
		return nil, err
	}
	c.SetAuditOrganisation(by.Organisation)
	c.SetAuditDetails(map[string]string{"method": store.MethodDevice, "approved_in": by.ID, "device_name": d.Client})
	var s *people.NewSession
	err = c.Change(ctx, func(tx *store.Tx) error {
		by, err := tx.Session(ctx, d.Session) // may have ended in the meantime
		if err == nil && !c.Now.Before(by.ExpiresAt) {
			err = apierr.New(apierr.NotFound, "the session has expired")
		}
		if err != nil {
			return err
		}
		if err := tx.SpendDeviceCode(ctx, d.Hash, c.Now); err != nil {
			return err
		}
		ends, err := f.grantEnd(ctx, c, tx, by)
		if err != nil {
			return err
		}
		proved := by.ProvedAt
		if proved.IsZero() {
			proved = by.CreatedAt
		}
		s, err = people.Begin(ctx, c, tx, people.Start{
			UserID: by.UserID, Organisation: by.Organisation, Ends: ends, Method: store.MethodDevice,
			Strong: by.Factor != "", ProvedAt: proved, // as the session that approved it
			Provider: by.Provider, Subject: by.Subject, ProviderSession: by.ProviderSession,
		})
		if err == nil && s.Pending != "" {
			err = oauth.NewError(oauth.AccessDenied, "the person who approved it proved one factor only; confirm the second in the browser, and begin again")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &oauth.Token{AccessToken: s.Token, Type: "Bearer", ExpiresIn: int64(time.Time(s.ExpiresAt).Sub(c.Now).Seconds())}, nil
}
