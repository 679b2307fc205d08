package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// OAuthGrant is what a user lets a client do. One consent makes one, for one client on one
// device.
type OAuthGrant struct {
	ID           string
	Organisation string
	UserID       string
	Workspace    string // id
	Client       string // id
	ClientName   string // as the person saw it
	RedirectURI  string // as the person saw it
	Scopes       []access.Scope
	Resource     string // slug of the tool server or bundle; empty for the address of all
	Sealed       string // the secret that signs access tokens, sealed for the organisation
	CreatedAt    time.Time
}

var oauthGrantTable = table[OAuthGrant]{
	name: "oauth_grants", row: "grant", order: "id DESC", fixed: "id",
	columns: func(g *OAuthGrant) []column {
		return []column{
			{"id", &g.ID}, {"organisation_id", &g.Organisation}, {"user_id", &g.UserID}, {"workspace_id", &g.Workspace},
			{"client_id", &g.Client}, {"client_name", &g.ClientName}, {"redirect_uri", &g.RedirectURI}, {"scopes", array(&g.Scopes)},
			{"resource", &g.Resource}, {"sealed", &g.Sealed}, {"created_at", &g.CreatedAt},
		}
	},
}

// OAuthProof is what the client of a grant proves that it is that client with.
type OAuthProof struct {
	Grant      string // id
	CodeHash   string
	Challenge  string    // of the code: the SHA-256 of its verifier, as in RFC 7636
	CodeUsedAt time.Time // zero until the code is used
	FamilyHash string    // of what all refresh tokens share; empty before the first
	TokenHash  string    // of the current refresh token's own part; empty before the first
	UsedAt     time.Time // when the client got an access token last
	EndsAt     time.Time // of the grant
}

var oauthProofTable = table[OAuthProof]{
	name: "oauth_proofs", row: "grant", fixed: "grant_id code_hash code_challenge",
	columns: func(p *OAuthProof) []column {
		return []column{
			{"grant_id", &p.Grant}, {"code_hash", &p.CodeHash}, {"code_challenge", &p.Challenge}, {"code_used_at", &p.CodeUsedAt},
			{"family_hash", &p.FamilyHash}, {"token_hash", &p.TokenHash}, {"used_at", &p.UsedAt}, {"ends_at", &p.EndsAt},
		}
	},
}

// GrantLimits limit the number of grants, and the time in which a code is used.
type GrantLimits struct {
	User, Organisation int
	Code               time.Duration
}

// AddOAuthGrant stores a grant and its code. It deletes grants that have ended or whose code was not
// used in time, and of the user's those used least recently above a limit. More than the organisation may have is an error of
// kind RateLimited.
func (tx *Tx) AddOAuthGrant(ctx context.Context, g OAuthGrant, p OAuthProof, most GrantLimits) error {
	const clean = `
		DELETE FROM oauth_grants
		WHERE id IN (SELECT grant_id FROM oauth_proofs WHERE ends_at <= $1) OR created_at <= $2
			AND id IN (SELECT grant_id FROM oauth_proofs WHERE code_used_at IS NULL)`
	const oldest = `
		DELETE FROM oauth_grants
		WHERE organisation_id = $1 AND user_id = $2 AND id NOT IN (
			SELECT g.id
			FROM oauth_grants g
			JOIN oauth_proofs p ON p.grant_id = g.id
			WHERE g.organisation_id = $1 AND g.user_id = $2
			ORDER BY COALESCE(p.used_at, g.created_at) DESC, g.id DESC
			LIMIT $3)`
	begun := g.CreatedAt.Add(-most.Code)
	if err := tx.exec(ctx, journal.OAuthGrants, "grants", clean, g.CreatedAt.UnixMilli(), begun.UnixMilli()); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.OAuthGrants, "grants", oldest, g.Organisation, g.UserID, int64(most.User-1)); err != nil {
		return err
	}
	n, err := sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM oauth_grants WHERE organisation_id = $1`, g.Organisation)
	if err == nil && n >= most.Organisation {
		err = apierr.New(apierr.RateLimited, "your organisation has %d grants of clients, as many as it may have; revoke some that nobody needs", n)
	}
	if err == nil {
		err = oauthGrantTable.insert(ctx, tx, g)
	}
	if err != nil {
		return err
	}
	return oauthProofTable.insert(ctx, tx, p)
}

// OAuthProofByCode returns the proof whose code has this hash, even if it was used or has ended.
func (q Queries) OAuthProofByCode(ctx context.Context, hash string) (OAuthProof, error) {
	return oauthProofTable.one(ctx, q.Reader, `
		WHERE code_hash = $1`, hash)
}

// OAuthProofByFamily returns the proof whose refresh tokens share a part with this hash, even if
// it has ended.
func (q Queries) OAuthProofByFamily(ctx context.Context, hash string) (OAuthProof, error) {
	return oauthProofTable.one(ctx, q.Reader, `
		WHERE family_hash = $1 AND family_hash <> ''`, hash)
}

// ReplaceOAuthProof stores p if its code was not used yet, or its refresh token still has the hash
// before, and reports whether it did: of several requests, one does.
func (db *DB) ReplaceOAuthProof(ctx context.Context, p OAuthProof, before string) (done bool, err error) {
	err = db.attemptChange(ctx, func(tx *Tx) (err error) {
		done, err = oauthProofTable.updateIf(ctx, tx, p, `token_hash = $2 AND ($2 <> '' OR code_used_at IS NULL)`, before)
		return err
	})
	return done, err
}

// HeldGrant is a grant with its user, and when it was used last and ends.
type HeldGrant struct {
	OAuthGrant
	Email  string
	UsedAt time.Time // zero before the client got a token
	EndsAt time.Time
}

// OAuthGrant returns the grant with this id, of whatever organisation, even if it has ended.
func (q Queries) OAuthGrant(ctx context.Context, id string) (OAuthGrant, error) {
	return oauthGrantTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// usableGrants are the grants of users who are active and have a role in the workspace, which is
// not archived: the only ones whose access tokens nodes accept.
const usableGrants = `
		FROM oauth_grants g
		JOIN workspaces w ON w.id = g.workspace_id AND w.organisation_id = g.organisation_id AND w.status <> 'archived'
		JOIN users u ON u.id = g.user_id AND u.status = 'active'
		JOIN organisation_members o ON o.organisation_id = g.organisation_id AND o.user_id = g.user_id AND o.status = 'active'
		LEFT JOIN workspace_members m ON m.workspace_id = g.workspace_id AND m.user_id = g.user_id
		WHERE (o.role IN ('owner', 'admin') OR m.role IS NOT NULL)`

// PublishedGrant is a grant with what nodes know of its user and workspace.
type PublishedGrant struct {
	OAuthGrant
	Defaults            string // of the workspace, as JSON
	Role, WorkspaceRole string // of the user; the latter is empty for none
	Permissions         string // that the workspace sets, as JSON
}

// UsableOAuthGrants returns the grants of all organisations whose users may use them.
func (q Queries) UsableOAuthGrants(ctx context.Context) ([]PublishedGrant, error) {
	const text = `
		SELECT g.id, g.organisation_id, g.user_id, g.workspace_id, g.client_name, g.scopes, g.resource, g.sealed,
			w.defaults, w.security_settings, o.role, COALESCE(m.role, '')` + usableGrants + `
		ORDER BY g.id`
	return sqlrow.List(ctx, q.Reader, "grants", text, func(r sqlrow.Scanner) (g PublishedGrant, err error) {
		err = r.Scan(&g.ID, &g.Organisation, &g.UserID, &g.Workspace, &g.ClientName, sqlrow.JSON(&g.Scopes), &g.Resource, &g.Sealed,
			&g.Defaults, &g.Permissions, &g.Role, &g.WorkspaceRole)
		return g, err
	})
}

// IsGrantUsable reports whether the user of a grant may use it.
func (q Queries) IsGrantUsable(ctx context.Context, id string) (bool, error) {
	n, err := sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*)`+usableGrants+` AND g.id = $1`, id)
	return n > 0, err
}

// HeldGrants returns the grants of an organisation that last at now, newest first: those of a
// user, or of all if user is empty.
func (q Queries) HeldGrants(ctx context.Context, organisation, user string, now time.Time) ([]HeldGrant, error) {
	const text = `
		SELECT g.id, g.organisation_id, g.user_id, g.workspace_id, g.client_id, g.client_name, g.redirect_uri, g.scopes, g.resource,
			g.created_at, p.used_at, p.ends_at, u.email
		FROM oauth_grants g
		JOIN oauth_proofs p ON p.grant_id = g.id
		JOIN users u ON u.id = g.user_id
		WHERE g.organisation_id = $1 AND ($2 = '' OR g.user_id = $2) AND p.ends_at > $3 AND p.code_used_at IS NOT NULL
		ORDER BY g.id DESC`
	return sqlrow.List(ctx, q.Reader, "grants", text, func(r sqlrow.Scanner) (g HeldGrant, err error) {
		err = r.Scan(&g.ID, &g.Organisation, &g.UserID, &g.Workspace, &g.Client, &g.ClientName, &g.RedirectURI, sqlrow.JSON(&g.Scopes),
			&g.Resource, sqlrow.Time(&g.CreatedAt), sqlrow.Time(&g.UsedAt), sqlrow.Time(&g.EndsAt), &g.Email)
		return g, err
	}, organisation, user, now.UnixMilli())
}

// DeleteOAuthGrant ends a grant of an organisation; a user that is not empty must be its owner.
func (tx *Tx) DeleteOAuthGrant(ctx context.Context, organisation, user, id string) error {
	const text = `
		DELETE FROM oauth_grants
		WHERE organisation_id = $1 AND ($2 = '' OR user_id = $2) AND id = $3`
	return tx.write(ctx, journal.OAuthGrants, "grant", text, organisation, user, id)
}

// DeleteClientGrants ends the grants of a client in an organisation.
func (tx *Tx) DeleteClientGrants(ctx context.Context, organisation, client string) error {
	const text = `
		DELETE FROM oauth_grants
		WHERE organisation_id = $1 AND client_id = $2`
	return tx.exec(ctx, journal.OAuthGrants, "grants", text, organisation, client)
}

// endGrants ends the grants of a user in an organisation or a workspace, and deletes their
// credentials for its tool servers; empty is all.
func (tx *Tx) endGrants(ctx context.Context, organisation, workspace, user string) error {
	const text = `
		DELETE FROM oauth_grants
		WHERE ($1 = '' OR organisation_id = $1) AND ($2 = '' OR workspace_id = $2) AND user_id = $3`
	const connections = `
		WHERE user_id = $3 AND server_id IN (
			SELECT id
			FROM mcp_servers
			WHERE ($1 = '' OR organisation_id = $1) AND ($2 = '' OR workspace_id = $2))`
	if err := tx.deleteConnections(ctx, connections, organisation, workspace, user); err != nil {
		return err
	}
	return tx.exec(ctx, journal.OAuthGrants, "grants", text, organisation, workspace, user)
}
