-- Tool servers: integrations have an address and its credentials, of an organisation or
-- of one of its workspaces; servers are what a workspace makes of them. Rows are deleted, not
-- archived. configurations and rules are JSON objects without secrets; sealed has those.
CREATE TABLE mcp_integrations (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	workspace_id TEXT NOT NULL,
	slug TEXT NOT NULL,
	name TEXT NOT NULL,
	description TEXT NOT NULL,
	transport TEXT NOT NULL,
	url TEXT NOT NULL,
	command TEXT NOT NULL,
	auth_type TEXT NOT NULL CHECK (auth_type IN ('none', 'headers', 'oauth_client_credentials', 'oauth_auto')),
	configurations TEXT NOT NULL,
	sealed TEXT NOT NULL,
	global_enabled BOOLEAN NOT NULL,
	status TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX mcp_integrations_slug ON mcp_integrations (organisation_id, slug);

-- Workspaces without a row have what global_enabled of the integration says.
CREATE TABLE mcp_integration_workspaces (
	integration_id TEXT NOT NULL REFERENCES mcp_integrations (id),
	workspace_id TEXT NOT NULL REFERENCES workspaces (id),
	enabled BOOLEAN NOT NULL,
	PRIMARY KEY (integration_id, workspace_id)
);

CREATE TABLE mcp_servers (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	workspace_id TEXT NOT NULL REFERENCES workspaces (id),
	integration_id TEXT NOT NULL REFERENCES mcp_integrations (id),
	slug TEXT NOT NULL,
	name TEXT NOT NULL,
	description TEXT NOT NULL,
	rules TEXT NOT NULL,
	default_user_access TEXT NOT NULL CHECK (default_user_access IN ('allow', 'deny')),
	status TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX mcp_servers_slug ON mcp_servers (workspace_id, slug);

CREATE INDEX mcp_servers_integration ON mcp_servers (integration_id);

-- A slug is unique among the servers and bundles of a workspace. selection is a JSON array.
CREATE TABLE mcp_bundles (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	workspace_id TEXT NOT NULL REFERENCES workspaces (id),
	slug TEXT NOT NULL,
	name TEXT NOT NULL,
	description TEXT NOT NULL,
	selection TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX mcp_bundles_slug ON mcp_bundles (workspace_id, slug);

-- What an integration or a server offers, and the rules of its owner for it. seen and
-- approved are digests of definitions, empty for none; price is in billionths of a dollar.
CREATE TABLE mcp_capabilities (
	owner_id TEXT NOT NULL,
	kind TEXT NOT NULL CHECK (kind IN ('tool', 'prompt', 'resource', 'resource_template')),
	name TEXT NOT NULL,
	enabled BOOLEAN NOT NULL,
	seen TEXT NOT NULL,
	approved TEXT NOT NULL,
	gone BOOLEAN NOT NULL,
	definition TEXT NOT NULL,
	price BIGINT,
	PRIMARY KEY (owner_id, kind, name)
);

-- What an integration or a server said of itself when it was last read, as a JSON object.
CREATE TABLE mcp_syncs (
	owner_id TEXT PRIMARY KEY,
	status TEXT NOT NULL CHECK (status IN ('pending', 'synced', 'failed')),
	error TEXT NOT NULL,
	metadata TEXT NOT NULL,
	tried_at BIGINT NOT NULL,
	synced_at BIGINT
);

CREATE TABLE mcp_user_access (
	server_id TEXT NOT NULL REFERENCES mcp_servers (id),
	user_id TEXT NOT NULL REFERENCES users (id),
	enabled BOOLEAN NOT NULL,
	PRIMARY KEY (server_id, user_id)
);

-- Credentials of users for servers that each user signs in to.
CREATE TABLE mcp_connections (
	server_id TEXT NOT NULL REFERENCES mcp_servers (id),
	user_id TEXT NOT NULL REFERENCES users (id),
	issuer TEXT NOT NULL,
	sealed TEXT NOT NULL,
	state TEXT NOT NULL CHECK (state IN ('active', 'needs_reauth', 'revoked')),
	expires_at BIGINT,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (server_id, user_id)
);

-- Which tools may be used: a JSON array of patterns, or null for all.
ALTER TABLE gateway_keys ADD COLUMN tools TEXT NOT NULL DEFAULT 'null';

ALTER TABLE workspaces ADD COLUMN tools TEXT NOT NULL DEFAULT 'null';

ALTER TABLE organisation_members ADD COLUMN tools TEXT NOT NULL DEFAULT 'null';
