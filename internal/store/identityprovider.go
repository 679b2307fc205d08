package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Types of an [IdentityProvider].
const (
	OIDC = "oidc"
	SAML = "saml"
)

// IdentityProvider is where members of an organisation sign in.
type IdentityProvider struct {
	ID           string
	Organisation string
	Slug         string // unique in the organisation
	Name         string
	Type         string
	Settings     IdentitySettings
	Sealed       string // the client secret or private key, sealed for the organisation; empty for none
	Status       string // active or disabled
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// IdentitySettings are the settings of an identity provider, without secrets.
type IdentitySettings struct {
	Issuer      string   `json:"issuer,omitempty"`
	ClientID    string   `json:"client_id,omitempty"`
	AuthMethod  string   `json:"token_endpoint_auth_method,omitempty"`
	Scopes      []string `json:"scopes,omitempty"`
	GroupsClaim string   `json:"groups_claim,omitempty"`

	// Domains are those whose people may become members or take over existing accounts.
	// They count once they are verified.
	Domains []string `json:"domains,omitempty"`

	NoProvisioning bool   `json:"disable_auto_provision_user,omitempty"` // the first sign-in of somebody unknown makes no member
	SessionTTL     int64  `json:"max_session_ttl,omitempty"`             // in seconds; 0 for the installation's
	Role           string `json:"role,omitempty"`                        // of new members: admin or member; empty is member

	// Strong are the values with which the provider says that it asked for two factors.
	Strong []string `json:"strong_authentication,omitempty"`

	// Of a provider with SAML, whose Issuer is its entity id.
	Metadata            string         `json:"metadata,omitempty"`
	MetadataURL         string         `json:"metadata_url,omitempty"` // empty if the metadata was entered
	Attributes          AttributeNames `json:"attributes,omitzero"`
	AllowSignedResponse bool           `json:"allow_signed_response,omitempty"`
	AllowIDPInitiated   bool           `json:"allow_idp_initiated,omitempty"`
	RotatingKey         bool           `json:"rotating_key,omitempty"` // Sealed has a second key, which does not sign yet
	LastAssertion       *LastAssertion `json:"last_assertion,omitempty"`
}

// AttributeNames are the names of the attributes with what is known of a person. Empty ones
// are the usual ones.
type AttributeNames struct {
	Email     string `json:"email,omitempty" maxLength:"255"`
	FirstName string `json:"first_name,omitempty" maxLength:"255"`
	LastName  string `json:"last_name,omitempty" maxLength:"255"`
	Groups    string `json:"groups,omitempty" maxLength:"255"`
}

// LastAssertion is when a verified assertion came last, and the names of its attributes.
type LastAssertion struct {
	ReceivedAt time.Time `json:"received_at"`
	Names      []string  `json:"attribute_names"`
}

var identityProviderTable = table[IdentityProvider]{
	name: "identity_providers", row: "identity provider", order: "id DESC", fixed: "id organisation_id type created_by created_at",
	columns: func(p *IdentityProvider) []column {
		return []column{
			{"id", &p.ID}, {"organisation_id", &p.Organisation}, {"slug", &p.Slug}, {"name", &p.Name}, {"type", &p.Type},
			{"settings", object(&p.Settings)}, {"sealed", &p.Sealed}, {"status", &p.Status}, {"created_by", &p.CreatedBy},
			{"created_at", &p.CreatedAt}, {"updated_at", &p.UpdatedAt},
		}
	},
}

// IdentityProviders returns a page of an organisation's identity providers, newest first,
// and the number of all.
func (q Queries) IdentityProviders(ctx context.Context, organisation string, p Page) (list []IdentityProvider, total int, err error) {
	return identityProviderTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1`, organisation)
}

// IdentityProvider returns the identity provider with this id or slug.
func (q Queries) IdentityProvider(ctx context.Context, organisation, ref string) (IdentityProvider, error) {
	return identityProviderTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`, organisation, ref)
}

// AnyIdentityProvider returns the active identity provider with this id, of whatever
// organisation.
func (q Queries) AnyIdentityProvider(ctx context.Context, id string) (IdentityProvider, error) {
	return identityProviderTable.one(ctx, q.Reader, `
		WHERE id = $1 AND status = 'active'`, id)
}

// CreateIdentityProvider stores an identity provider. A slug in use is a conflict.
func (tx *Tx) CreateIdentityProvider(ctx context.Context, p IdentityProvider) error {
	return identityProviderTable.insert(ctx, tx, p)
}

// UpdateIdentityProvider replaces the identity provider with p's id.
func (tx *Tx) UpdateIdentityProvider(ctx context.Context, p IdentityProvider) error {
	return identityProviderTable.update(ctx, tx, p)
}

// DeleteIdentityProvider deletes an identity provider with its identities, and ends the
// sessions that began there.
func (tx *Tx) DeleteIdentityProvider(ctx context.Context, id string) error {
	if err := tx.EndProviderSessions(ctx, ProviderSessions{Provider: id}); err != nil {
		return err
	}
	const (
		identities = `
		DELETE FROM identities
		WHERE provider_id = $1`
		provider = `
		DELETE FROM identity_providers
		WHERE id = $1`
	)
	if err := tx.exec(ctx, journal.Unpublished, "identities", identities, id); err != nil {
		return err
	}
	return tx.write(ctx, journal.Unpublished, "identity provider", provider, id)
}

// DeleteOwnerIdentities deletes the identities of an organisation's owners at an identity
// provider, and ends the sessions that began there with them. The owners must link their
// accounts again.
func (tx *Tx) DeleteOwnerIdentities(ctx context.Context, organisation, provider string) error {
	const owners = `
		WHERE organisation_id = $1 AND provider_id = $2 AND user_id IN (
			SELECT user_id FROM organisation_members WHERE organisation_id = $1 AND role = 'owner')`
	for _, rows := range []string{"identities", "sessions"} {
		if err := tx.exec(ctx, journal.Unpublished, rows, `DELETE FROM `+rows+owners, organisation, provider); err != nil {
			return err
		}
	}
	return nil
}

// ProviderSessions selects sessions that began at an identity provider. Empty fields
// select all.
type ProviderSessions struct {
	Provider string // id
	Subject  string
	Session  string // the provider's id of its session
}

// EndProviderSessions ends the selected sessions.
func (tx *Tx) EndProviderSessions(ctx context.Context, s ProviderSessions) error {
	const text = `
		DELETE FROM sessions
		WHERE provider_id = $1 AND ($2 = '' OR subject = $2) AND ($3 = '' OR provider_session = $3)`
	return tx.exec(ctx, journal.Unpublished, "sessions", text, s.Provider, s.Subject, s.Session)
}

// Identity is who a subject of an issuer is in an organisation.
type Identity struct {
	ID           string
	Organisation string
	Provider     string // id of the identity provider
	Issuer       string
	Subject      string
	UserID       string
	Email        string // at the last sign-in
	CreatedAt    time.Time
	LastUsedAt   time.Time
}

var identityTable = table[Identity]{
	name: "identities", row: "identity", order: "id DESC", fixed: "id organisation_id issuer subject created_at",
	columns: func(i *Identity) []column {
		return []column{
			{"id", &i.ID}, {"organisation_id", &i.Organisation}, {"provider_id", &i.Provider}, {"issuer", &i.Issuer}, {"subject", &i.Subject},
			{"user_id", &i.UserID}, {"email", &i.Email}, {"created_at", &i.CreatedAt}, {"last_used_at", &i.LastUsedAt},
		}
	},
}

// Identity returns the identity of a subject in an organisation.
func (q Queries) Identity(ctx context.Context, organisation, issuer, subject string) (Identity, error) {
	return identityTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND issuer = $2 AND subject = $3`, organisation, issuer, subject)
}

// Identities returns the identities of a user in an organisation.
func (q Queries) Identities(ctx context.Context, organisation, user string) ([]Identity, error) {
	return identityTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND user_id = $2
		ORDER BY id`, organisation, user)
}

// UsersOfProvider returns the ids of the users with an identity of a provider.
func (q Queries) UsersOfProvider(ctx context.Context, provider string) ([]string, error) {
	const text = `
		SELECT DISTINCT user_id
		FROM identities
		WHERE provider_id = $1
		ORDER BY user_id`
	return sqlrow.List(ctx, q.Reader, "users", text, func(r sqlrow.Scanner) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	}, provider)
}

// DirectoryMayUse reports whether the directory of an organisation may create users with
// addresses of a domain: it is not another organisation's, and if the organisation has
// verified domains, it is one of them.
func (q Queries) DirectoryMayUse(ctx context.Context, organisation, domain string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM domains
		WHERE verified_at IS NOT NULL AND (name = $2 AND organisation_id <> $1
			OR organisation_id = $1 AND NOT EXISTS (
				SELECT 1 FROM domains d WHERE d.organisation_id = $1 AND d.name = $2 AND d.verified_at IS NOT NULL))`
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation, domain)
	return n == 0, err
}

// CreateIdentity stores an identity. A known subject is a conflict.
func (tx *Tx) CreateIdentity(ctx context.Context, i Identity) error {
	return identityTable.insert(ctx, tx, i)
}

// UpdateIdentity replaces the identity with i's id.
func (tx *Tx) UpdateIdentity(ctx context.Context, i Identity) error {
	return identityTable.update(ctx, tx, i)
}

// DeleteIdentity deletes an identity of a user.
func (tx *Tx) DeleteIdentity(ctx context.Context, organisation, user, id string) error {
	const text = `
		DELETE FROM identities
		WHERE organisation_id = $1 AND user_id = $2 AND id = $3`
	return tx.write(ctx, journal.Unpublished, "identity", text, organisation, user, id)
}

// Spend records that what has this hash was accepted. It returns an error of kind Conflict
// if it was accepted before. The record is deleted some time after ends.
func (tx *Tx) Spend(ctx context.Context, hash string, now, ends time.Time) error {
	const (
		clean = `
		DELETE FROM spent_tokens
		WHERE ends_at <= $1`
		insert = `
		INSERT INTO spent_tokens (hash, ends_at)
		VALUES ($1, $2)
		ON CONFLICT (hash) DO NOTHING`
	)
	if err := tx.exec(ctx, journal.Unpublished, "spent tokens", clean, now.UnixMilli()); err != nil {
		return err
	}
	err := tx.write(ctx, journal.Unpublished, "token", insert, hash, millis(ends))
	if apierr.IsNotFound(err) { // no row was written
		err = apierr.New(apierr.Conflict, "it was used before")
	}
	return err
}

// Domain is a domain of e-mail addresses that an organisation says is its own.
type Domain struct {
	ID           string
	Organisation string
	Name         string    // lower case
	Challenge    string    // value of the record in the DNS
	VerifiedAt   time.Time // zero if it is not verified
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var domainTable = table[Domain]{
	name: "domains", row: "domain", order: "id DESC", fixed: "id organisation_id name challenge created_by created_at",
	columns: func(d *Domain) []column {
		return []column{
			{"id", &d.ID}, {"organisation_id", &d.Organisation}, {"name", &d.Name}, {"challenge", &d.Challenge},
			{"verified_at", &d.VerifiedAt}, {"created_by", &d.CreatedBy}, {"created_at", &d.CreatedAt}, {"updated_at", &d.UpdatedAt},
		}
	},
}

// Domains returns a page of an organisation's domains, newest first, and the number of
// all.
func (q Queries) Domains(ctx context.Context, organisation string, p Page) (list []Domain, total int, err error) {
	return domainTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1`, organisation)
}

// Domain returns the domain with this id or name.
func (q Queries) Domain(ctx context.Context, organisation, ref string) (Domain, error) {
	return domainTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR name = $2)`, organisation, ref)
}

// IsVerifiedDomain reports whether an organisation has proved that a domain is its own.
func (q Queries) IsVerifiedDomain(ctx context.Context, organisation, name string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM domains
		WHERE organisation_id = $1 AND name = $2 AND verified_at IS NOT NULL`
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation, name)
	return n > 0, err
}

// CreateDomain stores a domain. One that the organisation has is a conflict.
func (tx *Tx) CreateDomain(ctx context.Context, d Domain) error {
	return domainTable.insert(ctx, tx, d)
}

// VerifyDomain records that a domain is the organisation's. It is a conflict if it is
// another's.
func (tx *Tx) VerifyDomain(ctx context.Context, d Domain, now time.Time) error {
	d.VerifiedAt, d.UpdatedAt = now, now
	return domainTable.update(ctx, tx, d)
}

// DeleteDomain deletes a domain.
func (tx *Tx) DeleteDomain(ctx context.Context, id string) error {
	const text = `
		DELETE FROM domains
		WHERE id = $1`
	return tx.write(ctx, journal.Unpublished, "domain", text, id)
}
