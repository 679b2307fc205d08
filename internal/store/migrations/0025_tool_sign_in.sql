-- Tokens of a user for a tool server are refreshed by one node at a time: version counts what
-- was stored, and lease_until is when another node may try. 0 is at once.
ALTER TABLE mcp_connections ADD COLUMN version BIGINT NOT NULL DEFAULT 0;

ALTER TABLE mcp_connections ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0;

-- The gateway as a client that registered itself at the authorization server of a tool server.
CREATE TABLE mcp_clients (
	server_id TEXT NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
	issuer TEXT NOT NULL,
	redirect_uri TEXT NOT NULL,
	sealed TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (server_id, issuer, redirect_uri)
);

-- Users who are on their way to sign in at a tool server. id is the hash of their link, which is
-- used once; sealed is what the gateway needs when they come back, and empty once they did.
CREATE TABLE mcp_sign_ins (
	id TEXT PRIMARY KEY,
	server_id TEXT NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
	user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	session_hash TEXT NOT NULL,
	state_hash TEXT NOT NULL,
	sealed TEXT NOT NULL,
	ends_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX mcp_sign_ins_state ON mcp_sign_ins (state_hash);

CREATE INDEX mcp_sign_ins_user ON mcp_sign_ins (user_id);

CREATE INDEX mcp_sign_ins_end ON mcp_sign_ins (ends_at);

CREATE INDEX mcp_connections_user ON mcp_connections (user_id);
