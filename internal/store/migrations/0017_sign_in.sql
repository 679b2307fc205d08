-- Identity providers at which members of an organisation sign in. settings is a JSON
-- object without secrets; sealed is the client secret or private key.
CREATE TABLE identity_providers (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	slug TEXT NOT NULL,
	name TEXT NOT NULL,
	type TEXT NOT NULL CHECK (type IN ('oidc', 'saml')),
	settings TEXT NOT NULL,
	sealed TEXT NOT NULL,
	status TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX identity_providers_slug ON identity_providers (organisation_id, slug);

-- Who a subject of an issuer is in an organisation. The e-mail address is the one of the
-- last sign-in, for display.
CREATE TABLE identities (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	provider_id TEXT NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
	issuer TEXT NOT NULL,
	subject TEXT NOT NULL,
	user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	email TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX identities_subject ON identities (organisation_id, issuer, subject);

CREATE INDEX identities_user ON identities (user_id, organisation_id);

-- Domains of e-mail addresses that organisations say are theirs. Whoever proved it with a
-- record in the DNS, or by the operator, has it alone.
CREATE TABLE domains (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	name TEXT NOT NULL,
	challenge TEXT NOT NULL,
	verified_at BIGINT,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX domains_name ON domains (organisation_id, name);

CREATE UNIQUE INDEX domains_verified ON domains (name) WHERE verified_at IS NOT NULL;

-- Hashes of what must be accepted once only, such as tokens of back-channel logout.
CREATE TABLE spent_tokens (
	hash TEXT PRIMARY KEY,
	ends_at BIGINT NOT NULL
);

CREATE INDEX spent_tokens_end ON spent_tokens (ends_at);

-- How a session began. The ID token is sealed, to end the session at the provider later.
ALTER TABLE sessions ADD COLUMN method TEXT NOT NULL DEFAULT 'password';
ALTER TABLE sessions ADD COLUMN provider_id TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN provider_session TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN id_token TEXT NOT NULL DEFAULT '';

CREATE INDEX sessions_provider ON sessions (provider_id, subject) WHERE provider_id <> '';
