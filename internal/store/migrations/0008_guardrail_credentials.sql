-- Credentials for the partners that checks of guardrails ask: for the organisation, or
-- for one workspace.
CREATE TABLE guardrail_credentials (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	workspace_id TEXT NOT NULL,
	partner TEXT NOT NULL,
	sealed TEXT NOT NULL,
	masks TEXT NOT NULL,
	secret_mappings TEXT NOT NULL,
	created_by TEXT NOT NULL,
	updated_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX guardrail_credentials_partner ON guardrail_credentials (organisation_id, workspace_id, partner);
