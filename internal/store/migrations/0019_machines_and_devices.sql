-- Workloads that get short-lived keys of a service key for tokens of their issuer. trust
-- is a JSON object without secrets; sealed is what signs the keys, which are not stored.
CREATE TABLE workload_identities (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	key_id TEXT NOT NULL REFERENCES gateway_keys (id) ON DELETE CASCADE,
	slug TEXT NOT NULL,
	name TEXT NOT NULL,
	trust TEXT NOT NULL,
	ttl BIGINT NOT NULL,
	sealed TEXT NOT NULL,
	status TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX workload_identities_slug ON workload_identities (organisation_id, slug);

CREATE INDEX workload_identities_key ON workload_identities (key_id);

-- Sign-ins of command lines that wait for a person to approve them in a browser. Both
-- codes are stored as hashes. session_hash is the session that approved it.
CREATE TABLE device_codes (
	hash TEXT PRIMARY KEY,
	user_code_hash TEXT NOT NULL,
	client TEXT NOT NULL,
	address TEXT NOT NULL,
	status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied')),
	session_hash TEXT NOT NULL,
	poll_interval BIGINT NOT NULL,
	polled_at BIGINT,
	created_at BIGINT NOT NULL,
	ends_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX device_codes_user_code ON device_codes (user_code_hash);

CREATE INDEX device_codes_end ON device_codes (ends_at);
