-- Addresses of workspaces that receive events, and one delivery for each event and
-- address. Event types are a JSON array. An event is emitted once for its object.
CREATE TABLE webhook_endpoints (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	name TEXT NOT NULL,
	description TEXT NOT NULL,
	url TEXT NOT NULL,
	event_types TEXT NOT NULL,
	status TEXT NOT NULL CHECK (status IN ('enabled', 'disabled')),
	disabled_reason TEXT NOT NULL,
	sealed TEXT NOT NULL,
	hint TEXT NOT NULL,
	previous TEXT NOT NULL,
	previous_until BIGINT,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE INDEX webhook_endpoints_workspace ON webhook_endpoints (organisation_id, workspace_id);

CREATE TABLE webhook_deliveries (
	id TEXT PRIMARY KEY,
	endpoint_id TEXT NOT NULL,
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	event_id TEXT NOT NULL,
	event_type TEXT NOT NULL,
	object_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
	attempts BIGINT NOT NULL,
	status_code BIGINT NOT NULL,
	failure TEXT NOT NULL,
	next_at BIGINT,
	created_at BIGINT NOT NULL,
	tried_at BIGINT,
	ended_at BIGINT
);

CREATE UNIQUE INDEX webhook_deliveries_event ON webhook_deliveries (endpoint_id, event_type, object_id);

CREATE INDEX webhook_deliveries_created ON webhook_deliveries (created_at);
