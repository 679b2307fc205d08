-- Passkeys of members. credential is a JSON object with what the authenticator said of it;
-- the other columns are searched or change with each use. handle is the random name of the
-- member at authenticators. clones counts the uses whose counter did not rise.
CREATE TABLE passkeys (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	credential_id TEXT NOT NULL,
	handle TEXT NOT NULL,
	rp_id TEXT NOT NULL,
	name TEXT NOT NULL,
	credential TEXT NOT NULL,
	sign_count BIGINT NOT NULL,
	clones BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	last_used_at BIGINT,
	FOREIGN KEY (organisation_id, user_id) REFERENCES organisation_members (organisation_id, user_id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX passkeys_credential ON passkeys (credential_id);

CREATE INDEX passkeys_user ON passkeys (user_id, organisation_id);

-- Secrets of one-time codes, sealed for the organisation. last_step is the time step of the
-- last code that was accepted.
CREATE TABLE one_time_codes (
	organisation_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	sealed TEXT NOT NULL,
	last_step BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (organisation_id, user_id),
	FOREIGN KEY (organisation_id, user_id) REFERENCES organisation_members (organisation_id, user_id) ON DELETE CASCADE
);

-- Hashes of recovery codes, each of which is deleted when it is used.
CREATE TABLE recovery_codes (
	organisation_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	hash TEXT NOT NULL,
	PRIMARY KEY (organisation_id, user_id, hash),
	FOREIGN KEY (organisation_id, user_id) REFERENCES organisation_members (organisation_id, user_id) ON DELETE CASCADE
);

-- What a session waits for before it can be used (empty for nothing), its second factor, and
-- when its user last proved who they are; NULL is when it began.
ALTER TABLE sessions ADD COLUMN pending TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN factor TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN proved_at BIGINT;

-- Links with which the operator lets an owner sign in without a password; empty for the
-- first owner, who claims the organisation.
ALTER TABLE claims ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
