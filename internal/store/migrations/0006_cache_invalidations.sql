-- Invalidations of cached responses: entries of the workspace with a lower generation,
-- which all fields that are not empty select, are not served.
CREATE TABLE cache_invalidations (
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	generation BIGINT NOT NULL,
	namespace TEXT NOT NULL,
	config_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	PRIMARY KEY (workspace_id, generation)
);
