package oauth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/store"
)

// repeatTime is how long a refresh token that was replaced may be used again, for the same
// successor: processes of a client share their token, and responses get lost.
const repeatTime = 30 * time.Second

// clientGrant is a grant with what its client proves it with, and the secret that signs its tokens.
type clientGrant struct {
	store.OAuthGrant
	proof   store.OAuthProof
	signing secret.String
}

// codeGrant gives the first tokens for a code (RFC 6749, section 4.1.3; RFC 7636).
func (f *family) codeGrant(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error) {
	refused := oauth.NewError(oauth.InvalidGrant, "the code is unknown, expired or was used, or is of another client or redirect URI, or code_verifier is wrong")
	if err := checkClientForm(form, "code", "redirect_uri", "code_verifier"); err != nil {
		return nil, err
	}
	p, err := c.DB().OAuthProofByCode(ctx, access.HashKey(form["code"]).String())
	if apierr.IsNotFound(err) {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	h, err := f.hold(ctx, c, p)
	switch {
	case apierr.IsNotFound(err):
		return nil, refused
	case err != nil:
		return nil, err
	case h.Client != form["client_id"] || h.RedirectURI != form["redirect_uri"]:
		return nil, refused
	case !p.CodeUsedAt.IsZero(): // whoever has it: one of two is not the client
		return nil, f.endReused(ctx, c, h, "code", refused)
	case !c.Now.Before(h.CreatedAt.Add(codeTime)) || !oauth.MatchesChallenge(p.Challenge, form["code_verifier"]):
		return nil, refused
	}
	if err := f.checkUse(ctx, c, h, form); err != nil {
		return nil, err
	}
	first := access.NewRefreshToken()
	p.CodeUsedAt, p.UsedAt, p.FamilyHash, p.TokenHash = c.Now, c.Now, hashPart(first.Family), hashPart(first.Own)
	done, err := f.api.DB.ReplaceOAuthProof(ctx, p, "")
	if err == nil && !done {
		return nil, f.endReused(ctx, c, h, "code", refused)
	}
	if err != nil {
		return nil, err
	}
	c.SetAuditOrganisation(h.Organisation)
	c.SetAuditActor(h.UserID)
	c.SetAuditAction("oauth_token", h.ID)
	c.SetAuditDetails(map[string]string{"client_id": h.Client, "client_name": h.ClientName})
	return f.issue(c, h, first)
}

// refreshGrant gives the next tokens for a refresh token (RFC 6749, section 6), which is replaced.
func (f *family) refreshGrant(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error) {
	refused := oauth.NewError(oauth.InvalidGrant, "the refresh token is unknown or was replaced, or its grant has ended; sign in again")
	if err := checkClientForm(form, "refresh_token"); err != nil {
		return nil, err
	}
	h, sent, err := f.findRefresh(ctx, c, form)
	switch {
	case apierr.IsNotFound(err), err == nil && (h.Client != form["client_id"] || !c.Now.Before(h.proof.EndsAt)):
		return nil, refused
	case err != nil:
		return nil, err
	}
	if err := f.checkUse(ctx, c, h, form); err != nil {
		return nil, err
	}
	next := sent.Next(h.signing)
	if before := hashPart(sent.Own); h.proof.TokenHash == before {
		h.proof.TokenHash, h.proof.UsedAt = hashPart(next.Own), c.Now
		if done, err := f.api.DB.ReplaceOAuthProof(ctx, h.proof, before); err != nil || done {
			return f.issueOr(c, h, next, err)
		}
		if h, _, err = f.findRefresh(ctx, c, form); err != nil { // another request replaced it
			return nil, refused
		}
	}
	if h.proof.TokenHash == hashPart(next.Own) && c.Now.Before(h.proof.UsedAt.Add(repeatTime)) {
		return f.issue(c, h, next)
	}
	return nil, f.endReused(ctx, c, h, "refresh token", refused)
}

// checkClientForm returns an error for a request of a client without one of the parameters, or with
// a secret, since no client has one.
func checkClientForm(form map[string]string, required ...string) error {
	for _, name := range append([]string{"client_id"}, required...) {
		if form[name] == "" {
			return oauth.NewError(oauth.InvalidRequest, name+" is required")
		}
	}
	for _, name := range []string{"client_secret", "client_assertion"} {
		if form[name] != "" {
			return &oauth.Error{
				Code: oauth.InvalidClient, Description: "clients are public here; leave out " + name, Status: http.StatusUnauthorized,
			}
		}
	}
	return nil
}

// findRefresh returns the grant of a refresh token, which may have been replaced.
func (f *family) findRefresh(ctx context.Context, c *route.Caller, form map[string]string) (*clientGrant, access.RefreshToken, error) {
	sent, ok := access.ParseRefreshToken(form["refresh_token"])
	if !ok {
		return nil, sent, apierr.New(apierr.NotFound, "this is not a refresh token")
	}
	p, err := c.DB().OAuthProofByFamily(ctx, hashPart(sent.Family))
	if err != nil {
		return nil, sent, err
	}
	h, err := f.hold(ctx, c, p)
	return h, sent, err
}

// hold returns the grant of a proof.
func (f *family) hold(ctx context.Context, c *route.Caller, p store.OAuthProof) (*clientGrant, error) {
	g, err := c.DB().OAuthGrant(ctx, p.Grant)
	if err != nil {
		return nil, err
	}
	if f.api.Secrets == nil {
		return nil, errNoMasterKey
	}
	signing, err := f.api.Secrets.Open(ctx, g.Organisation, g.Sealed)
	return &clientGrant{g, p, signing}, err
}

// checkUse returns an error if a request is for another address or other scopes than the grant, or
// if its user may not use the workspace any more: then the grant is useless.
func (f *family) checkUse(ctx context.Context, c *route.Caller, h *clientGrant, form map[string]string) error {
	if slug, ok := parseResource(c, form["resource"]); form["resource"] != "" && (!ok || slug != h.Resource) {
		return oauth.NewError(oauth.InvalidTarget, "the grant is for another resource; sign in at that one")
	}
	for word := range strings.FieldsSeq(form["scope"]) {
		if !hasScope(h.Scopes, word) && word != "offline_access" {
			return oauth.NewError(oauth.InvalidScope, "the grant does not have every scope that was requested")
		}
	}
	ok, err := c.DB().IsGrantUsable(ctx, h.ID)
	if err == nil && !ok {
		err = oauth.NewError(oauth.InvalidGrant, "the user may not use the workspace of the grant any more")
	}
	return err
}

func hasScope(list []access.Scope, word string) bool {
	for _, s := range list {
		if string(s) == word {
			return true
		}
	}
	return false
}

func (f *family) issueOr(c *route.Caller, h *clientGrant, next access.RefreshToken, err error) (*oauth.Token, error) {
	if err != nil {
		return nil, err
	}
	return f.issue(c, h, next)
}

// issue returns an access token together with a refresh token.
func (f *family) issue(c *route.Caller, h *clientGrant, refresh access.RefreshToken) (*oauth.Token, error) {
	life := f.Settings().AccessToken
	if life == 0 {
		life = time.Hour
	}
	if left := h.proof.EndsAt.Sub(c.Now); left < life {
		life = left
	}
	ends := c.Now.Add(life)
	token, err := access.NewAccessToken(h.signing, access.AccessToken{Grant: h.ID, Expires: ends.Unix()})
	if err != nil {
		return nil, err
	}
	var words []string
	for _, s := range h.Scopes {
		words = append(words, string(s))
	}
	return &oauth.Token{
		AccessToken: token.Reveal(), Type: "Bearer", ExpiresIn: max(int64(life.Seconds()), 0), RefreshToken: refresh.Text().Reveal(),
		Scope: strings.Join(words, " "),
	}, nil
}

// endReused ends a grant of which somebody has a code or a token that was used before, and
// returns refused.
func (f *family) endReused(ctx context.Context, c *route.Caller, h *clientGrant, what string, refused error) error {
	if err := f.end(ctx, c, h, "oauth_reuse", map[string]string{"reused": what}); err != nil {
		return err
	}
	return refused
}

// end ends a grant at the request of a client. One that has ended is not an error.
func (f *family) end(ctx context.Context, c *route.Caller, h *clientGrant, action string, details map[string]string) error {
	details["client_id"], details["client_name"] = h.Client, h.ClientName
	c.SetAuditOrganisation(h.Organisation)
	c.SetAuditActor(h.UserID)
	c.SetAuditAction(action, h.ID)
	c.SetAuditDetails(details)
	err := c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteOAuthGrant(ctx, h.Organisation, "", h.ID) })
	if apierr.IsNotFound(err) {
		return nil
	}
	return err
}

// revoke ends a grant by one of its tokens (RFC 7009): access tokens are not stored, so that
// one ends with its grant. An unknown token is not an error.
func (f *family) revoke(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	form, err := form(c, r)
	if err == nil {
		err = checkClientForm(form, "token")
	}
	if err == nil {
		err = f.endByToken(ctx, c, form)
	}
	return reply(w, struct{}{}, err)
}

func (f *family) endByToken(ctx context.Context, c *route.Caller, form map[string]string) error {
	h, err := f.findByToken(ctx, c, form["token"])
	if apierr.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if h.Client != form["client_id"] {
		return oauth.NewError(oauth.InvalidClient, "the token is of another client")
	}
	return f.end(ctx, c, h, "oauth_revoke", map[string]string{"by": "client"})
}

// findByToken returns the grant of an access token or a refresh token.
func (f *family) findByToken(ctx context.Context, c *route.Caller, token string) (h *clientGrant, err error) {
	if !access.IsAccessToken(token) {
		h, _, err = f.findRefresh(ctx, c, map[string]string{"refresh_token": token})
		return h, err
	}
	_, ok := access.ParseAccessToken(token, func(grant string) (secret.String, bool) {
		if h, err = f.hold(ctx, c, store.OAuthProof{Grant: grant}); err != nil {
			return secret.String{}, false
		}
		return h.signing, true
	})
	if err == nil && !ok {
		err = apierr.New(apierr.NotFound, "this is not a token of ours")
	}
	return h, err
}

// hashPart returns the stored form of a part of a refresh token.
func hashPart(s secret.String) string { return access.HashKey(s.Reveal()).String() }
