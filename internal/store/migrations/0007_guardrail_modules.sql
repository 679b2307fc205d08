-- WebAssembly modules that saved guardrails run. A module never changes.
CREATE TABLE guardrail_modules (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	workspace_id TEXT NOT NULL,
	slug TEXT NOT NULL,
	name TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	size BIGINT NOT NULL,
	exports TEXT NOT NULL,
	code BYTEA NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX guardrail_modules_slug ON guardrail_modules (organisation_id, slug);
