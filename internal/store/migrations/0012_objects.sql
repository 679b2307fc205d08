-- What outlives a request: files, uploads, batches, fine-tuning jobs, responses and
-- conversations. Each belongs to a workspace. provider is empty for what the gateway keeps
-- itself; provider_object_id is empty until the provider has responded. Every change
-- raises version.
CREATE TABLE objects (
	id TEXT PRIMARY KEY,
	kind TEXT NOT NULL,
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	provider TEXT NOT NULL,
	integration_id TEXT NOT NULL,
	provider_object_id TEXT NOT NULL,
	parent_id TEXT NOT NULL,
	state TEXT NOT NULL,
	label TEXT NOT NULL,
	size BIGINT NOT NULL,
	data TEXT NOT NULL,
	version BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	expires_at BIGINT,
	ended_at BIGINT
);

CREATE INDEX objects_list ON objects (workspace_id, kind, id);

CREATE UNIQUE INDEX objects_provider ON objects (workspace_id, kind, provider_object_id, provider) WHERE provider_object_id <> '';

CREATE INDEX objects_parent ON objects (parent_id) WHERE parent_id <> '';

CREATE INDEX objects_expiry ON objects (expires_at) WHERE expires_at IS NOT NULL;
