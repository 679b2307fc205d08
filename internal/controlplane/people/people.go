// Package people has what all ways of signing in have in common: a session begins, its
// cookie is set, an invite is accepted.
//
// It guarantees that a session is stored as a hash only and recorded with its method and
// address, that it waits for a second factor wherever one is due, and that it gets another
// token when it gains rights. It does not decide who a person is: sessions checks passwords
// and links, signin asks identity providers, factors checks second factors.
package people

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// SignInPath is the path of the page on which people sign in, relative to the gateway's
// address.
const SignInPath = "/login"

// AddressGroup returns the unit of counting for a client's address: the address, or for
// IPv6 its /64, which one subscriber owns.
func AddressGroup(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// LimitID returns the key of a stored limit of attempts, a hash that reveals neither e-mail
// addresses nor client addresses.
func LimitID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// AcceptInvite adds a user of the invite's organisation to the workspaces of the invite.
// Workspaces archived since are left out, and the user keeps the roles that they have.
func AcceptInvite(ctx context.Context, tx *store.Tx, i store.Invite, user string, now time.Time) error {
	var places []struct{ ID, Role string }
	if err := json.Unmarshal(i.Workspaces, &places); err != nil {
		return err
	}
	for _, p := range places {
		w, err := tx.Workspace(ctx, i.Organisation, p.ID)
		if err != nil {
			return err
		}
		if _, err = tx.WorkspaceMember(ctx, w.ID, user); err == nil || apierr.IsNotFound(err) && w.Status != store.Active {
			continue
		}
		if apierr.IsNotFound(err) {
			err = tx.SetWorkspaceMember(ctx, w.ID, user, p.Role, now)
		}
		if err != nil {
			return err
		}
	}
	i.Status, i.AcceptedAt = store.InviteAccepted, now
	return tx.UpdateInvite(ctx, i)
}

// Cookie asks for the session as a cookie.
type Cookie struct {
	Path string `json:"path" minLength:"1" maxLength:"255" pattern:"^/[A-Za-z0-9._~/-]*$" doc:"Path below which browsers send the cookie"`
}

// InCookie moves the token of a session to a cookie of the response, if in is set, which
// scripts cannot read and other sites cannot send.
func InCookie(c *route.Caller, s *NewSession, in *Cookie) {
	if s == nil || in == nil {
		return
	}
	SetCookie(c, s.Token, in.Path, time.Time(s.ExpiresAt))
	s.Token = ""
}

// SetCookie sets the cookie of a session.
func SetCookie(c *route.Caller, token, path string, ends time.Time) {
	c.SetCookie(&http.Cookie{Name: access.SessionCookie, Value: token, Path: path, Expires: ends, SameSite: http.SameSiteStrictMode})
}

// ClearCookie removes the cookie of a session.
func ClearCookie(c *route.Caller, path string) {
	c.SetCookie(&http.Cookie{Name: access.SessionCookie, Path: path, MaxAge: -1, SameSite: http.SameSiteStrictMode})
}

// IsLocalPath reports whether a browser that is sent to a path stays on the gateway: it
// is an absolute path, not an address of another host in one of the forms that browsers
// accept.
func IsLocalPath(path string) bool {
	if !strings.HasPrefix(path, "/") || len(path) > 2048 {
		return false
	}
	if len(path) > 1 && (path[1] == '/' || path[1] == '\\') {
		return false
	}
	for i := range len(path) {
		if b := path[i]; b <= ' ' || b == '\\' || b >= 0x7f {
			return false
		}
	}
	lower := strings.ToLower(path)
	for _, encoded := range []string{"/%2f", "/%5c", "%0d", "%0a", "%00", "%09"} {
		if strings.Contains(lower, encoded) {
			return false
		}
	}
	return true
}
