-- Keys can be disabled without revoking them.
ALTER TABLE gateway_keys ADD COLUMN disabled BOOLEAN NOT NULL DEFAULT FALSE;

-- Versions of guardrails, which are kept to be read and restored.
CREATE TABLE guardrail_versions (
	id TEXT PRIMARY KEY,
	guardrail_id TEXT NOT NULL REFERENCES guardrails (id),
	number BIGINT NOT NULL,
	checks TEXT NOT NULL,
	actions TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX guardrail_versions_number ON guardrail_versions (guardrail_id, number);

INSERT INTO guardrail_versions (id, guardrail_id, number, checks, actions, created_by, created_at)
SELECT version_id, id, 1, checks, actions, updated_by, updated_at
FROM guardrails;
