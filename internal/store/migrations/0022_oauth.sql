-- Clients of the authorization server: those that an organisation registered, and those that
-- registered themselves (organisation_id is empty then), which are deleted if nobody uses them.
CREATE TABLE oauth_clients (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	name TEXT NOT NULL,
	redirect_uris TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	used_at BIGINT
);

CREATE INDEX oauth_clients_organisation ON oauth_clients (organisation_id, id);

-- What users let clients do: call the tool servers of one address in a workspace. sealed is
-- what signs access tokens, which are not stored.
CREATE TABLE oauth_grants (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
	client_id TEXT NOT NULL,
	client_name TEXT NOT NULL,
	redirect_uri TEXT NOT NULL,
	scopes TEXT NOT NULL,
	resource TEXT NOT NULL,
	sealed TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	FOREIGN KEY (organisation_id, user_id) REFERENCES organisation_members (organisation_id, user_id) ON DELETE CASCADE
);

CREATE INDEX oauth_grants_user ON oauth_grants (organisation_id, user_id, id);

-- What a client proves that it has a grant with, as hashes: a code, then refresh tokens of one
-- family. code_used_at is NULL until the code is used; ends_at is when the grant ends.
CREATE TABLE oauth_proofs (
	grant_id TEXT PRIMARY KEY REFERENCES oauth_grants (id) ON DELETE CASCADE,
	code_hash TEXT NOT NULL,
	code_challenge TEXT NOT NULL,
	code_used_at BIGINT,
	family_hash TEXT NOT NULL,
	token_hash TEXT NOT NULL,
	used_at BIGINT,
	ends_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX oauth_proofs_code ON oauth_proofs (code_hash);

CREATE INDEX oauth_proofs_family ON oauth_proofs (family_hash);

CREATE INDEX oauth_proofs_end ON oauth_proofs (ends_at);
